"""What a drive and its worker processes say to each other, one JSON line each."""

import msgspec

from specbench.errors import DriveFailed, HostError, InputError, SpecbenchError
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
    """The worker cannot go on, for a reason that a reader can act on.

    `is_drive`: the load broke off (DriveFailed); what it was sent from may be sound.
    """

    what: str
    where: str | None = None
    hint: str | None = None
    is_input: bool = False
    is_drive: bool = False

    @classmethod
    def by(cls, error: SpecbenchError) -> "Refused":
        """Carry an error to the other side."""
        return cls(
            what=error.what,
            where=error.where,
            hint=error.hint,
            is_input=isinstance(error, InputError),
            is_drive=isinstance(error, DriveFailed),
        )

    def error(self, who: str = "") -> SpecbenchError:
        """Give the error that was carried, with the name of the machine that it comes from."""
        kind: type[SpecbenchError] = HostError
        if self.is_input or self.is_drive:
            kind = InputError if self.is_input else DriveFailed
        return kind(f"{who}: {self.what}" if who else self.what, where=self.where, hint=self.hint)


Message = Ready | Refused | DriveProgress | WorkerSummary
