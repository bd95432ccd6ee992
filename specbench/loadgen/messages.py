"""What a drive and its worker processes say to each other, one JSON line each."""

import msgspec

from specbench.loadgen.hotpath.client_stats import WorkerSummary
from specbench.loadgen.hotpath.endpoint import Endpoint
from specbench.loadgen.schedule import Share
from specbench.model.load import DriveProgress, LoadSpec


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True, tag="order"):
    """What a worker is to do. It holds the API key (in the head), so it travels by pipe only."""

    load: LoadSpec
    share: Share
    endpoint: Endpoint
    drive_id: str
    sink: str


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """Requests are built and `opened` of `wanted` connections are open."""

    worker: int
    opened: int
    wanted: int
    failure: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The worker cannot go on, for a reason that a reader can act on."""

    what: str
    where: str | None = None
    hint: str | None = None
    is_input: bool = False


Message = Ready | Refused | DriveProgress | WorkerSummary
