"""The plan: which servers are launched, in which order, and what is measured on each."""

from typing import Literal

import msgspec

from specbench.model.bill import Bill
from specbench.model.load import Sampling, Shape
from specbench.model.matrix import Cell, Level, WorkloadOptions


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that defines one server process; equal specs share a launch.

    `flags` are in command-line order, without dashes; a True value is a bare flag. `fingerprint`
    is the content hash of what defines the process. `forces`: arguments that the algorithm makes
    the server resolve differently by itself. `engine` names the server product, "" the default one.
    """

    fingerprint: str
    algorithm: str
    speculative: bool
    model_path: str
    served_name: str
    command: tuple[str, ...] = ()
    flags: tuple[tuple[str, Level], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    levels: dict[str, Level] = {}
    forces: tuple[str, ...] = ()
    engine: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a trial asks of its server: matrix and cell resolved, once, by the planner.

    `requests` is the size of the trial before whole passes are made of it; None where time or
    tokens alone end it, and in recordings of when the workload's own number was the size.
    """

    workload: WorkloadOptions
    sampling: Sampling
    shape: Shape
    requests: int | None = None


class Trial(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One planned execution of a cell inside a block.

    `replicate` counts trials of this cell over all launches from 0; `order` is its place inside
    the block; `seed` drives prompt order and sampling seeds and is the same on every arm. `key`
    stands for the place in the design (levels, host, launch, replicate) whatever the definition
    behind it; `definition` maps each part of the definition to its hash. `asked` is None in
    recordings of before it was kept.
    """

    trial_id: str
    cell: Cell
    host: str
    block_id: str
    replicate: int
    launch: int
    order: int
    seed: int
    kind: Literal["timed", "verify"] = "timed"
    key: str = ""
    definition: dict[str, str] = {}
    asked: Asked | None = None


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One launch of one server and the trials measured while it is up.

    `resumed`: other trials of the block were measured by an earlier process of the same server.
    `expected_s` is of the load and the trials, None where no earlier recording tells.
    """

    block_id: str
    host: str
    launch: int
    spec: LaunchSpec
    trials: tuple[Trial, ...]
    resumed: bool = False
    expected_s: float | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that a recording holds: its outcome, its key, and the definition it ran under."""

    state: Literal["ok", "failed"]
    key: str
    definition: dict[str, str] = {}
    reason: str = ""


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that a recording held and that cannot be used any more; `key` may be unknown."""

    trial_id: str
    key: str = ""
    why: str


class PastLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """How long one launch took in an earlier recording."""

    host: str
    model: str
    algorithm: str
    load_s: float


class PastTrial(msgspec.Struct, frozen=True, kw_only=True):
    """How long one trial took in an earlier recording, and how many requests at which load."""

    host: str
    model: str
    cell_id: str
    seconds: float
    requests: int | None = None
    load: str = ""
    kind: Literal["timed", "verify"] = "timed"


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier recordings tell about durations."""

    launches: tuple[PastLaunch, ...] = ()
    trials: tuple[PastTrial, ...] = ()


class TrialReason(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a trial will run or not: `state` for scripts, `reason` for people."""

    trial_id: str
    state: Literal["missing", "done", "stale", "failed", "invalid"]
    reason: str
    cell_id: str = ""
    host: str = ""
    expected_s: float | None = None

    @property
    def will_run(self) -> bool:
        """Whether the plan measures it."""
        return self.state in ("missing", "stale", "failed")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks in the order of execution, per host; `invalid` cells are reported, never dropped.

    Blocks hold the trials that will run; `reasons` has every trial of the matrix. `expected_s` is
    the expected wall time, hosts in parallel, or None where no earlier recording tells. `notices`
    say what a reader should know (an added control, an idle host). `bill` is what it costs, by
    recordings or by other means.
    """

    blocks: tuple[Block, ...]
    reasons: tuple[TrialReason, ...] = ()
    invalid: tuple[Cell, ...] = ()
    expected_s: float | None = None
    notices: tuple[str, ...] = ()
    bill: Bill = Bill()

    @property
    def launches(self) -> int:
        """How many times a server is started."""
        return len(self.blocks)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, in order of execution."""
        return tuple(trial for block in self.blocks for trial in block.trials)
