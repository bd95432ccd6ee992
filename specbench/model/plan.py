"""The plan: which servers are launched, in which order, and what is measured on each."""

from typing import Literal

import msgspec

from specbench.model.matrix import Cell, Level


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that defines one server process; equal specs share a launch.

    `flags` are in command-line order, without dashes; a True value is a bare flag. `fingerprint`
    is the content hash of the rest.
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


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One planned execution of a cell inside a block.

    `replicate` counts trials of this cell over all launches from 0; `order` is its place inside
    the block; `seed` drives prompt order and sampling seeds.
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


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One launch of one server and the trials measured while it is up."""

    block_id: str
    host: str
    launch: int
    spec: LaunchSpec
    trials: tuple[Trial, ...]


class TrialReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a trial will run or not: `state` for scripts, `reason` for people."""

    trial_id: str
    state: Literal["missing", "done", "stale", "failed", "invalid"]
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks in the order of execution, per host; `invalid` cells are reported, never dropped.

    `expected_s` is the expected wall time, or None where no earlier recording tells.
    """

    blocks: tuple[Block, ...]
    reasons: tuple[TrialReason, ...] = ()
    invalid: tuple[Cell, ...] = ()
    expected_s: float | None = None

    @property
    def launches(self) -> int:
        """How many times a server is started."""
        return len(self.blocks)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, in order of execution."""
        return tuple(trial for block in self.blocks for trial in block.trials)
