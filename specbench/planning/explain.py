"""A plan as data for `plan` and `--dry-run`: launches, trials, why, how long."""

from collections import Counter

import msgspec

from specbench.model.bill import Bill
from specbench.model.matrix import Level
from specbench.model.plan import Plan, TrialReason


class BlockLine(msgspec.Struct, frozen=True, kw_only=True):
    """One launch: the levels that need it, its flags, how many trials of it will run."""

    block_id: str
    host: str
    launch: int
    algorithm: str
    levels: dict[str, Level]
    flags: dict[str, Level]
    trials: int
    verifications: int
    resumed: bool
    expected_s: float | None = None


class InvalidLine(msgspec.Struct, frozen=True, kw_only=True):
    """One cell that no server can run, and why."""

    cell_id: str
    levels: dict[str, Level]
    reason: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for people and scripts; `states` counts trials (cells where invalid) by state."""

    launches: int
    trials: int
    states: dict[str, int]
    blocks: tuple[BlockLine, ...]
    reasons: tuple[TrialReason, ...]
    invalid: tuple[InvalidLine, ...]
    notices: tuple[str, ...]
    expected_s: float | None = None
    bill: Bill = Bill()


def explain(plan: Plan) -> Explanation:
    """Lay a plan out as plain data."""
    lines = []
    for block in plan.blocks:
        verifications = sum(trial.kind == "verify" for trial in block.trials)
        lines.append(
            BlockLine(
                block_id=block.block_id,
                host=block.host,
                launch=block.launch,
                algorithm=block.spec.algorithm,
                levels={name: v for name, v in block.spec.levels.items() if v is not None},
                flags=dict(block.spec.flags),
                trials=len(block.trials) - verifications,
                verifications=verifications,
                resumed=block.resumed,
                expected_s=block.expected_s,
            )
        )
    return Explanation(
        launches=plan.launches,
        trials=len(plan.trials),
        states=dict(Counter(reason.state for reason in plan.reasons)),
        blocks=tuple(lines),
        reasons=plan.reasons,
        invalid=tuple(
            InvalidLine(cell_id=c.cell_id, levels=c.levels, reason=c.invalid or "")
            for c in plan.invalid
        ),
        notices=plan.notices,
        expected_s=plan.expected_s,
        bill=plan.bill,
    )
