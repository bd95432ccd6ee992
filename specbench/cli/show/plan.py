"""A plan as text: launches in order, their trials, and why each runs."""

from collections.abc import Iterator

from specbench.cli.show.live import cell_text, settings
from specbench.model.plan import Plan
from specbench.planning import Explanation

LONGEST = 200
"""Trials listed one by one; of more, only the counts are shown (`--json` lists all)."""


def plan_lines(plan: Plan, explanation: Explanation) -> Iterator[str]:
    """Yield the lines of a plan."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(explanation.states.items()))
    yield f"{explanation.launches} launches, {explanation.trials} trials to measure"
    yield f"  trials: {states or 'none'}"
    yield f"  expected time: {duration(explanation.expected_s)}"
    for notice in explanation.notices:
        yield f"  note: {notice}"
    reasons = {reason.trial_id: reason.reason for reason in explanation.reasons}
    listed = explanation.trials <= LONGEST
    for number, (block, line) in enumerate(
        zip(plan.blocks, explanation.blocks, strict=True), start=1
    ):
        levels = {name: value for name, value in line.levels.items() if name != "algorithm"}
        server = " ".join([line.algorithm, *settings(levels)])
        yield f"launch {number} on {line.host}: {server}  ({duration(line.expected_s)})"
        for trial in block.trials if listed else ():
            yield f"  {cell_text(trial)}  replicate={trial.replicate}: {reasons[trial.trial_id]}"
        if not listed:
            yield f"  {line.trials} trials"
    for cell in explanation.invalid:
        yield f"invalid: {' '.join(settings(cell.levels))}: {cell.reason}"


def duration(seconds: float | None) -> str:
    """Say a duration in minutes and seconds; unknown where nothing tells."""
    if seconds is None:
        return "time unknown: no earlier recording tells"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
