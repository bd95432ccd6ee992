"""What the trials of one host share, and the way in which a server ends them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specbench.model.host import Host
from specbench.model.load import Dataset
from specbench.model.matrix import Matrix
from specbench.model.plan import Block
from specbench.model.service import LoadFailure
from specbench.recording import Writer
from specbench.workflows.lab import Lab


class ServerDied(Exception):
    """The server, or the load on it, broke off in the middle of a trial."""

    def __init__(self, failure: LoadFailure) -> None:
        super().__init__(failure.cause)
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the trials of one host share. The server of the block `kept_block` is left running."""

    matrix: Matrix
    datasets: dict[str, Dataset]
    host: Host
    writer: Writer
    lab: Lab
    stopped: Callable[[], bool]
    kept_block: str | None = None


def server_identity(block: Block, version: str | None = None) -> dict[str, Any]:
    """Say in a sealed trial which server it was measured on; `version` where it was told."""
    known = {} if version is None else {"version": version}
    return {
        "fingerprint": block.spec.fingerprint,
        "speculative": block.spec.speculative,
        "model_path": block.spec.model_path,
    } | known
