"""Events of a run: the command line renders them, a notebook ignores them, a test lists them."""

import msgspec

from specbench.model.load import DriveProgress
from specbench.model.plan import Block, Plan, Trial
from specbench.model.service import LoadFailure, LoadProgress
from specbench.model.verdict import VerdictName


class RunStarted(msgspec.Struct, frozen=True, kw_only=True, tag="run_started"):
    """The recording is open; `resumed` says that it held trials already."""

    recording: str
    plan: Plan
    resumed: bool


class BlockStarted(msgspec.Struct, frozen=True, kw_only=True, tag="block_started"):
    """A server is about to be launched."""

    block: Block


class BlockLoading(msgspec.Struct, frozen=True, kw_only=True, tag="block_loading"):
    """A server is loading."""

    block: Block
    progress: LoadProgress


class BlockReady(msgspec.Struct, frozen=True, kw_only=True, tag="block_ready"):
    """A server answered, and it is the one that was asked for."""

    block: Block
    load_s: float
    flags: tuple[str, ...] = ()


class BlockFailed(msgspec.Struct, frozen=True, kw_only=True, tag="block_failed"):
    """A server could not be measured; its trials are recorded as failed."""

    block: Block
    failure: LoadFailure
    log_path: str = ""


class TrialStarted(msgspec.Struct, frozen=True, kw_only=True, tag="trial_started"):
    """Load begins."""

    trial: Trial


class TrialProgress(msgspec.Struct, frozen=True, kw_only=True, tag="trial_progress"):
    """Load goes on."""

    trial: Trial
    progress: DriveProgress


class TrialFinished(msgspec.Struct, frozen=True, kw_only=True, tag="trial_finished"):
    """A trial is sealed, as ok or as failed with a reason."""

    trial: Trial
    status: str
    reason: str = ""
    tok_s: float | None = None
    accept_len: float | None = None
    flags: tuple[str, ...] = ()


class VerifyProgress(msgspec.Struct, frozen=True, kw_only=True, tag="verify_progress"):
    """A losslessness battery goes on: `generated` tokens so far, of at most `limit`."""

    trial: Trial
    stage: str
    generated: int = 0
    limit: int = 0


class VerdictGiven(msgspec.Struct, frozen=True, kw_only=True, tag="verdict_given"):
    """A losslessness verdict is recorded; `reason` is its first line for people."""

    trial: Trial
    verdict: VerdictName
    reason: str = ""


class ServiceKept(msgspec.Struct, frozen=True, kw_only=True, tag="service_kept"):
    """The last server of a host is left running at `url`, as seen on the host."""

    host: str
    url: str


class HostFailed(msgspec.Struct, frozen=True, kw_only=True, tag="host_failed"):
    """A host could not be used; its trials stay to be measured, other hosts go on."""

    host: str
    what: str
    hint: str = ""


class Notice(msgspec.Struct, frozen=True, kw_only=True, tag="notice"):
    """Something that a reader should know; never an error by itself."""

    text: str
    host: str = ""


class RunFinished(msgspec.Struct, frozen=True, kw_only=True, tag="run_finished"):
    """The run is over. Counts are of trials, `invalid` of cells; `exit_status` as documented.

    `kept` maps a host to the URL of the server that was left running there.
    """

    recording: str
    measured: int
    already_done: int
    failed: int
    invalid: int
    exit_status: int = 0
    kept: dict[str, str] = {}


RunEvent = (
    RunStarted
    | BlockStarted
    | BlockLoading
    | BlockReady
    | BlockFailed
    | TrialStarted
    | TrialProgress
    | TrialFinished
    | VerifyProgress
    | VerdictGiven
    | ServiceKept
    | HostFailed
    | Notice
    | RunFinished
)
