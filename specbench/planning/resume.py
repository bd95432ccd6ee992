"""What a recording already holds of a plan: done, failed, stale because something changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from specbench.model.plan import Block, Lost, Measured, Trial, TrialReason
from specbench.planning.identity import digest

NEW = "not measured yet"
_VERIFY_IGNORES = frozenset({"load levels", "workload", "dataset"})


@dataclass
class Ledger:
    """Measured trials by their place in the design."""

    by_key: dict[str, list[tuple[str, Measured]]] = field(default_factory=dict)
    lost: Sequence[Lost] = ()

    @classmethod
    def of(cls, done: Mapping[str, Measured], lost: Sequence[Lost]) -> "Ledger":
        """Index what a recording holds, and what it held and has lost."""
        ledger = cls(lost=lost)
        for trial_id, measured in done.items():
            ledger.by_key.setdefault(measured.key, []).append((trial_id, measured))
        return ledger

    def judge(self, trial: Trial) -> tuple[Trial, TrialReason]:
        """Say whether a trial will run and why; it takes the id under which it is recorded.

        A trial that failed is tried again under a new id, so that both outcomes stay on record; so
        is one whose files are damaged.
        """
        earlier = self.by_key.get(trial.key)
        if not earlier:
            return self._unknown(trial)
        same = [item for item in earlier if not changed_parts(item[1], trial)]
        for trial_id, measured in same:
            if measured.state == "ok":
                return _reason(trial, "done", "measured", trial_id)
        if same:
            trial_id = digest(trial.trial_id, "attempt", len(same))
            why = same[-1][1].reason
            return _reason(trial, "failed", f"failed before{': ' + why if why else ''}", trial_id)
        parts = min((changed_parts(item[1], trial) for item in earlier), key=len)
        return _reason(trial, "stale", f"changed since: {', '.join(parts)}", trial.trial_id)

    def _unknown(self, trial: Trial) -> tuple[Trial, TrialReason]:
        """Judge a trial that no usable one stands for: new, or measured before and lost since."""
        mine = [
            one
            for one in self.lost
            if one.trial_id == trial.trial_id or (one.key and one.key == trial.key)
        ]
        if not mine:
            return _reason(trial, "missing", NEW, trial.trial_id)
        why = f"measured before, and lost: {mine[-1].why}"
        return _reason(trial, "failed", why, digest(trial.trial_id, "lost", len(mine)))


def changed_parts(measured: Measured, trial: Trial) -> tuple[str, ...]:
    """Name the parts of the definition that differ; what either side does not know is no change."""
    ignored = _VERIFY_IGNORES if trial.kind == "verify" else frozenset()
    return tuple(
        name
        for name, value in trial.definition.items()
        if name not in ignored
        and value
        and measured.definition.get(name)
        and measured.definition[name] != value
    )


def _reason(trial: Trial, state: str, reason: str, trial_id: str) -> tuple[Trial, TrialReason]:
    if trial_id != trial.trial_id:
        trial = msgspec.structs.replace(trial, trial_id=trial_id)
    found = TrialReason(
        trial_id=trial_id,
        state=state,  # type: ignore[arg-type]  # one of the literals above
        reason=reason,
        cell_id=trial.cell.cell_id,
        host=trial.host,
    )
    return trial, found


def resume(
    blocks: Iterable[Block], done: Mapping[str, Measured], lost: Sequence[Lost] = ()
) -> tuple[list[Block], list[TrialReason]]:
    """Keep the trials that will run, and the blocks that hold any; every trial has its reason."""
    ledger = Ledger.of(done, lost)
    blocks = list(blocks)
    if not done and not lost:
        missing = [
            _reason(trial, "missing", NEW, trial.trial_id)[1] for b in blocks for trial in b.trials
        ]
        return blocks, missing
    kept: list[Block] = []
    reasons: list[TrialReason] = []
    for block in blocks:
        judged = [ledger.judge(trial) for trial in block.trials]
        reasons += [reason for _, reason in judged]
        trials = tuple(trial for trial, reason in judged if reason.will_run)
        if trials:
            partly = any(reason.state == "done" for _, reason in judged)
            kept.append(msgspec.structs.replace(block, trials=trials, resumed=partly))
    return kept, reasons
