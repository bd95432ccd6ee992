"""A plan as text: launches in order, their trials, and why each runs."""

from collections.abc import Iterator

from specbench.cli.show.live import cell_text, settings
from specbench.model.bill import Bill, Source, Span
from specbench.model.plan import Plan
from specbench.planning import Explanation

SOURCES: dict[Source, str] = {
    "recordings": "as recorded before",
    "said": "by what was said (--launch-minutes, --tok-s)",
    "hardware": "by a model of the hardware",
}

LONGEST = 200
"""Trials listed one by one; of more, only the counts are shown (`--json` lists all)."""


def plan_lines(plan: Plan, explanation: Explanation) -> Iterator[str]:
    """Yield the lines of a plan."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(explanation.states.items()))
    yield f"{explanation.launches} launches, {explanation.trials} trials to measure"
    yield f"  trials: {states or 'none'}"
    yield from _bill_lines(explanation.bill)
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


def _bill_lines(bill: Bill) -> Iterator[str]:
    """Yield what the plan costs, which part of it dominates, and what would halve it."""
    if bill.hours is None:
        yield f"  expected time: unknown: nothing tells {'; nor '.join(bill.unknown)}"
        return
    yield f"  expected time: {_hours(bill.hours)}"
    dear = [f"{_span(bill.gpu_hours)} GPU-hours"] if bill.gpu_hours else []
    dear += [f"{_span(bill.usd)} USD"] if bill.usd else []
    if bill.parts and dear:
        yield f"  cost: {', '.join(dear)}"
    total = sum(part.hours.expected for part in bill.parts)
    for part in bill.parts:
        share = part.hours.expected / total if total else 0.0
        told = " and ".join(SOURCES[source] for source in part.sources)
        yield f"    {share:4.0%}  {part.count} {part.what}: {_hours(part.hours)}, {told}"
    for saving in bill.savings:
        yield (
            f"  {_brief(saving.hours_left)} without {saving.drops}: {saving.line}"
            f"   (exclude: {saving.exclude})"
        )


def _hours(hours: Span) -> str:
    """Say a span of time, and its bounds where they differ."""
    if hours.low == hours.high:
        return _brief(hours.expected)
    return f"{_brief(hours.expected)} ({_brief(hours.low)} to {_brief(hours.high)})"


def _brief(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else duration(3600 * hours)


def _span(amount: Span) -> str:
    if amount.low == amount.high:
        return f"{amount.expected:,.1f}"
    return f"{amount.expected:,.1f} ({amount.low:,.1f} to {amount.high:,.1f})"


def duration(seconds: float | None) -> str:
    """Say a duration in minutes and seconds; unknown where nothing tells."""
    if seconds is None:
        return "time unknown: no earlier recording tells"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
