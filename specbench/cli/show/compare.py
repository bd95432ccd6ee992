"""A comparison or a noise floor as text, or as one JSON document."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import typer

from specbench.analysis.comparison import ArmSummary, CellComparison, Comparison, Estimate
from specbench.analysis.confounds import Difference
from specbench.analysis.pareto import Choice
from specbench.workflows.compare import Compared, NoiseReport

LONGEST = 60
"""Characters of a value; longer ones (lists of graph sizes) are cut, JSON has them whole."""


def show(answer: Compared | NoiseReport, *, as_json: bool) -> int:
    """Print an answer on standard output; return its exit status."""
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=1).decode())
        return answer.exit_status
    lines = _noise_lines(answer) if isinstance(answer, NoiseReport) else compared_lines(answer)
    for line in lines:
        typer.echo(line)
    return answer.exit_status


def compared_lines(answer: Compared) -> Iterator[str]:
    """Yield the lines of a comparison: verdict, cells, why, where, the flags."""
    c = answer.comparison
    yield f"{c.b.name} against {c.a.name}, {c.metric}: {_words(c.verdict)}"
    yield f"  this workload alone: {_words(c.verdict_this_workload)}"
    for arm in (c.a, c.b):
        yield _arm_line(arm)
    for cell in c.cells:
        yield from _cell_lines(cell)
    for turn in c.crossovers:
        within = ""
        if turn.at is not None and turn.low is not None and turn.high is not None:
            within = f" (95 %: {turn.low:.3g} to {turn.high:.3g})"
        yield f"crossover{_variant({**turn.levels, **turn.own_b})}: {turn.reading}{within}"
    yield from _ranking_lines(c.ranking)
    yield from _difference_lines(c)
    for text in c.unmatched:
        yield f"not compared - {text}"
    for text in (*c.caveats, f"restart allowance - {c.restart_allowance}"):
        yield f"note: {text}"
    if answer.fail_if is not None:
        told = {"yes": "met: this is a regression", "no": "not met", "unknown": "cannot be decided"}
        yield f"--fail-if {answer.fail_if!r}: {told[str(answer.failed)]}"


def _arm_line(arm: ArmSummary) -> str:
    used = arm.acceptance.utilisation if arm.acceptance else None
    budget = "" if used is None else f", {used:.1%} of proposed nodes accepted"
    launches = "1 launch" if arm.launches == 1 else f"{arm.launches} launches"
    counts = f"{launches}, {arm.trials} trial{'' if arm.trials == 1 else 's'}"
    return f"  {arm.name}: {counts}, lossless: {arm.lossless}{budget}"


def _cell_lines(cell: CellComparison) -> Iterator[str]:
    own = "; ".join(filter(None, (_levels(cell.own_a), _levels(cell.own_b))))
    yield f"{_levels(cell.levels) or 'all trials'}  [{own}]"
    yield f"  {_words(cell.verdict)}: {cell.why}"
    means = f"{cell.value_a:.4g} -> {cell.value_b:.4g}"
    yield f"  {means}; this workload {_estimate(cell.this_workload)}"
    if cell.such_workloads is not None:
        yield f"  such workloads {_estimate(cell.such_workloads)}, {cell.prompts} prompts"
    median = cell.median_prompt
    if median is not None and math.isfinite(median.ratio):
        yield f"  median prompt x{median.ratio:.3f} {_range(median.low, median.high)}"
    if cell.decomposition is not None:
        yield f"  why: {cell.decomposition.reading}"
        yield (
            f"  bound from acceptance and step time x{cell.decomposition.bound:.3f},"
            f" observed x{cell.decomposition.speedup.ratio:.3f}"
        )
    if cell.launches_needed is not None:
        yield f"  about {cell.launches_needed} launches an arm would decide a difference this size"
    for flag in cell.doubts[1:]:
        yield f"  also withheld for - {flag}"
    if cell.flags:
        yield f"  flags: {', '.join(cell.flags)}"


def _ranking_lines(ranking: Iterable[Choice]) -> Iterator[str]:
    rows = list(ranking)
    loads = list(dict.fromkeys(_levels(choice.load) for choice in rows))
    for load in loads:
        first = next(choice for choice in rows if _levels(choice.load) == load)
        if first.p_best is None:
            continue
        front = ", on the Pareto front" if first.on_front else ""
        energy = "" if first.joule_token is None else f", {first.joule_token:.3g} J/token"
        yield (
            f"best at {load or 'this load'}: {_levels(first.configuration)}"
            f" (probability {first.p_best:.2f}, lossless: {first.lossless}{front}{energy})"
        )


def _difference_lines(c: Comparison) -> Iterator[str]:
    titles: tuple[tuple[str, tuple[Difference, ...]], ...] = (
        ("forced by the algorithm", c.coupled),
        ("ALLOWED by you", c.allowed),
        ("recorded on one side only, cannot be ruled out", c.unrecorded),
    )
    for title, found in titles:
        told = [f"{d.column} ({_cut(d.a)} / {_cut(d.b)})" for d in found]
        if told:
            yield f"{title}: " + ", ".join(told)


def _noise_lines(answer: NoiseReport) -> Iterator[str]:
    yield f"{answer.arm} against itself, {answer.metric}: the noise of each host"
    for floor in answer.floors:
        restart, trial = (
            "not replicated" if value is None else f"{value:.2f} % ({df} df)"
            for value, df in (
                (floor.restart_pct, floor.restart_df),
                (floor.trial_pct, floor.trial_df),
            )
        )
        yield f"  {floor.host}: between launches {restart}, between trials of a launch {trial}"
        yield f"    from {floor.launches} launches and {floor.trials} trials of {floor.cells} cells"
        if floor.resolvable_pct is not None:
            yield f"    this many launches an arm show a difference of {floor.resolvable_pct:.1f} %"
    if answer.stored is None:
        yield "no cell was launched twice: nothing is known of restarts"
        yield "  set replicates: {launches: 3} in the matrix and run it again"
        return
    yield f"restart allowance from now on: {answer.restart_allowance_pct:.2f} % ({answer.source})"
    yield f"stored in {answer.stored}"


def _estimate(estimate: Estimate) -> str:
    text = f"x{estimate.ratio:.3f} {_range(estimate.low, estimate.high)}"
    if math.isfinite(estimate.detectable_pct):
        text += f", detectable {estimate.detectable_pct:.1f} %"
    return text


def _range(low: float, high: float) -> str:
    return f"[{low:.3f}, {high:.3f}]"


def _levels(levels: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in levels.items() if value is not None)


def _variant(levels: Mapping[str, Any]) -> str:
    text = _levels(levels)
    return f" at {text}" if text else ""


def _words(outcome: str) -> str:
    return {"no_difference": "no difference", "mixed": "it depends on the cell"}.get(
        outcome, outcome
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
