"""A comparison or a noise floor as text, or as one JSON document."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specbench.analysis.comparison import (
    ArmSummary,
    CellComparison,
    Comparison,
    Estimate,
    Pooled,
)
from specbench.analysis.confounds import Difference
from specbench.analysis.pareto import Choice
from specbench.cli.show.consoles import say, say_json
from specbench.stats.components import Part
from specbench.workflows.compare import Compared, NoiseReport

LONGEST = 60
"""Characters of a value; longer ones (lists of graph sizes) are cut, JSON has them whole."""

DIFFER = 0.05
"""P of equal effects at all levels of a factor, below which each level is told."""


def show(answer: Compared | NoiseReport, *, as_json: bool) -> int:
    """Print an answer on standard output; return its exit status."""
    if as_json:
        say_json(answer, indent=1)
        return answer.exit_status
    lines = _noise_lines(answer) if isinstance(answer, NoiseReport) else compared_lines(answer)
    for line in lines:
        say(line)
    return answer.exit_status


def compared_lines(answer: Compared) -> Iterator[str]:
    """Yield the lines of a comparison: the answer, cells, why, where, the flags."""
    c = answer.comparison
    yield f"{c.b.name} against {c.a.name}, {c.metric}: {_words(c.verdict)}"
    yield from _answer_lines(c)
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
    for text in (*c.caveats, f"launch noise - {c.launch_noise}"):
        yield f"note: {text}"
    if answer.fail_if is not None:
        told = {"yes": "met: this is a regression", "no": "not met", "unknown": "cannot be decided"}
        yield f"--fail-if {answer.fail_if!r}: {told[str(answer.failed)]}"


def _answer_lines(c: Comparison) -> Iterator[str]:
    """Say the whole answer in one sentence, how much cells differ, and where they do."""
    if c.verdict_this_workload != c.verdict:
        yield f"  this workload alone: {_words(c.verdict_this_workload)}"
    if len(c.cells) > 1:
        yield f"  {_sentence(c.pooled)}"
        counts = Counter(_words(str(cell.verdict)) for cell in c.cells)
        yield "  cells: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    for part in c.by:
        if (part.differs_p or 1.0) < DIFFER or part.verdict != c.pooled.verdict:
            yield f"  {part.scope}: {_words(part.verdict)}, {_both(part)}"


def _sentence(pooled: Pooled) -> str:
    cells = f"{pooled.cells} matched cells"
    left = f" ({pooled.withheld} more in doubt)" if pooled.withheld else ""
    text = f"over {cells}{left}: {_both(pooled)}; {pooled.why}"
    if pooled.such_cells is not None and pooled.tau_pct is not None:
        text += (
            f"; cells differ by {pooled.tau_pct:.1f} %, such cells"
            f" {_range(pooled.such_cells.low, pooled.such_cells.high)}"
        )
    return text


def _both(told: Pooled | CellComparison) -> str:
    """Give the figure for this workload and for such workloads, once where they are one."""
    if told.such_workloads is None or told.such_workloads == told.this_workload:
        return f"this and such workloads {_estimate(told.this_workload)}"
    return (
        f"such workloads {_estimate(told.such_workloads)},"
        f" this workload {_estimate(told.this_workload)}"
    )


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
    yield f"  {_both(cell)}"
    yield f"  {_figures(cell)}"
    median = cell.median_prompt
    if median is not None and math.isfinite(median.ratio):
        yield f"  median prompt x{median.ratio:.3f} {_range(median.low, median.high)}"
    if cell.decomposition is not None:
        yield f"  why: {cell.decomposition.reading}"
        yield (
            f"  bound from acceptance and step time x{cell.decomposition.bound:.3f},"
            f" observed x{cell.decomposition.speedup.ratio:.3f}"
        )
    if cell.advice:
        yield f"  {cell.advice}"
    for flag in cell.doubts[1:]:
        yield f"  also withheld for - {flag}"
    if cell.flags:
        yield f"  flags: {', '.join(cell.flags)}"


def _figures(cell: CellComparison) -> str:
    """Give both arms' figures with n: launches, trials, requests."""
    text = f"{cell.value_a:.4g} -> {cell.value_b:.4g}"
    if cell.rate_a and cell.rate_b and cell.in_flight_a and cell.in_flight_b:
        text += (
            f"; steady window {cell.rate_a:.4g} -> {cell.rate_b:.4g} tokens/s a slot,"
            f" {cell.in_flight_a:.3g} -> {cell.in_flight_b:.3g} in flight"
        )
    counts = [
        f"{launches}x{trials / launches:g} ({requests} requests)"
        for launches, trials, requests in zip(
            cell.launches, cell.trials, cell.requests, strict=True
        )
    ]
    shown = counts[0] if counts[0] == counts[1] else f"{counts[0]} and {counts[1]}"
    return f"{text}; n {shown} an arm, {cell.prompts} prompts"


def _ranking_lines(ranking: Iterable[Choice]) -> Iterator[str]:
    rows = list(ranking)
    loads = list(dict.fromkeys(_levels(choice.load) for choice in rows))
    for load in loads:
        first = next(choice for choice in rows if _levels(choice.load) == load)
        if not first.ranked:
            continue
        if first.p_best is None:
            yield f"best at {load or 'this load'}: not decided"
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
        yield f"  {floor.host}: between launches {_part(floor.launch)},"
        yield f"    between trials of a launch {_part(floor.trial)},"
        yield f"    between requests {_part(floor.request)}, between prompts {_part(floor.prompt)}"
        yield f"    from {floor.launches} launches and {floor.trials} trials of {floor.cells} cells"
        if floor.resolvable_pct is not None:
            yield f"    this many launches an arm show a difference of {floor.resolvable_pct:.1f} %"
    if answer.stored is None:
        yield "no cell was launched twice: nothing is known of restarts"
        yield "  set replicates: {launches: 3} in the matrix and run it again"
        return
    yield f"launch noise taken for granted from now on: {answer.launch_noise_pct:.2f} %"
    yield f"  {answer.source}"
    yield f"stored in {answer.stored}"


def _part(part: Part) -> str:
    if part.pct is None:
        return "not replicated"
    known = part.low_pct is not None and part.high_pct is not None
    within = f" [{part.low_pct:.2f}, {part.high_pct:.2f}]" if known else ""
    return f"{part.pct:.2f} %{within} ({part.df} df)"


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
