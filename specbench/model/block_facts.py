"""What is recorded of one launch of a server: the content of a block's `facts.json`."""

from typing import Any

import msgspec

from specbench.model.plan import LaunchSpec
from specbench.model.service import ServiceFacts


class BlockFacts(ServiceFacts, frozen=True, kw_only=True):
    """Everything known about a launch; None, empty and "" where it was not recorded.

    `load_s` is the time until the server was ready, `phase_times` the part of each phase, both in
    seconds. `environment` are the variables that were set for the server; `client` describes the
    machine that drove the load. `flags` are the findings about the server, those of its command
    line are in `spec`.
    """

    url: str = ""
    block_id: str = ""
    host: str = ""
    launch: int = 0
    spec: LaunchSpec | None = None
    phase_times: dict[str, float] = msgspec.field(default_factory=dict)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    client: dict[str, Any] = msgspec.field(default_factory=dict)
