"""The notes under a comparison's table: at most five, each one line of thought."""

import math
from collections.abc import Iterator

from specbench.analysis.comparison import CellComparison, Comparison, Pooled
from specbench.report.numbers import show
from specbench.report.statements import count, listed

MOST = 5
DIFFER = 0.05
"""P of equal effects at all levels of a factor, below which each level is told."""


def notes_of(c: Comparison) -> tuple[str, ...]:
    """Give the notes in the order in which a reader needs them; each says its subject first."""
    found = [_arms(c), why_of(c), _where(c), _doubt(c), _next(c), _rests(c)]
    told = [note for note in found if note]
    if len(told) > MOST:
        told.remove(_where(c))
    return tuple(told[:MOST])


def _arms(c: Comparison) -> str:
    """Say whether the arms are lossless, and in what else they differ."""
    gates = {side.name: side.lossless for side in (c.a, c.b)}
    told = [f"{name} {gate}" for name, gate in gates.items() if gate != "control"]
    parts = ["lossless: " + (", ".join(told) or "not asked of plain decoding")]
    if "violated" in gates.values():
        parts.append("its speed is shown and ranks nowhere")
    for words, found in (
        ("ALLOWED by you", c.allowed),
        ("forced by the algorithm", c.coupled),
        ("recorded on one side only", c.unrecorded),
    ):
        if found:
            parts.append(f"{words}: {listed([one.column for one in found], most=3)}")
    return "; ".join(parts)


def why_of(c: Comparison) -> str:
    """Say what the ratio is made of: tokens a step, and the time of a step."""
    parts = [cell.decomposition for cell in c.cells if cell.decomposition is not None]
    if c.metric == "accept_len" or not parts:
        return ""
    accept = _spread([one.accept_len.ratio for one in parts])
    step = _spread([one.step_time_ratio for one in parts])
    return f"why: accept_len {accept}; step time {step}"


def _spread(ratios: list[float]) -> str:
    """Give the geometric mean of ratios as a change, and from where to where cells go."""
    known = [ratio for ratio in ratios if math.isfinite(ratio) and ratio > 0]
    if not known:
        return "not measured"
    mean = math.exp(sum(map(math.log, known)) / len(known))
    ends = [_pct(min(known)), _pct(max(known))]
    return _pct(mean) + (f" (cells {ends[0]} to {ends[1]})" if ends[0] != ends[1] else "")


def _pct(ratio: float) -> str:
    return f"x{show(ratio)}" if ratio >= 2 else f"{round(100 * (ratio - 1)):+d} %"


def _where(c: Comparison) -> str:
    """Say at which levels the answer is another, and where it turns."""
    parts = [
        f"{part.scope} {_words(part.verdict)} {_range(part)}"
        for part in c.by
        if (part.differs_p or 1.0) < DIFFER or part.verdict != c.pooled.verdict
    ]
    turns = [one.reading for one in c.crossovers if one.at is not None]
    parts += [f"crossover: {listed(turns, most=2)}"] if turns else []
    return "where: " + "; ".join(parts) if parts else ""


def _range(part: Pooled) -> str:
    told = part.estimate
    return f"{show(told.ratio)} [{show(told.low)}, {show(told.high)}]"


def _words(verdict: str) -> str:
    return verdict.replace("_", " ")


def _doubt(c: Comparison) -> str:
    """Name what withholds verdicts and what else the rows carry, with the numbers of the rows."""
    held: dict[str, list[int]] = {}
    flags: dict[str, list[int]] = {}
    for number, cell in enumerate(c.cells, 1):
        for doubt in cell.doubts:
            held.setdefault(doubt.split(":")[0], []).append(number)
        for flag in cell.flags:
            flags.setdefault(flag, []).append(number)
    own = [flag for flag in flags if flag not in held]
    parts = [f"* withheld for {name} ({_cells(rows, c)})" for name, rows in held.items()]
    parts += [f"{flag} ({_cells(flags[flag], c)})" for flag in own]
    if c.unmatched:
        parts.append(f"not compared: {listed(c.unmatched, most=1)}")
    return "doubt: " + listed(parts, most=4) if parts else ""


def _cells(numbers: list[int], c: Comparison) -> str:
    if len(numbers) == len(c.cells):
        return "all cells" if len(numbers) > 1 else "the cell"
    shown = ", ".join(f"#{number}" for number in numbers[:4])
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"{shown}{more} of {len(c.cells)}"


def _next(c: Comparison) -> str:
    """Say what would decide the rest: launches an arm, for the cell that needs fewest and most."""
    undecided = [
        (number, cell)
        for number, cell in enumerate(c.cells, 1)
        if cell.verdict == "inconclusive" and cell.launches_needed
    ]
    if not undecided:
        return ""
    return "next: " + "; ".join(_needs(undecided))


def _needs(undecided: list[tuple[int, CellComparison]]) -> Iterator[str]:
    by_need = sorted(undecided, key=lambda one: one[1].launches_needed or 0)
    least, most = by_need[0], by_need[-1]
    launches = count(least[1].launches_needed or 0, "launch", "launches")
    yield f"{launches} an arm would likely decide #{least[0]}"
    if most[0] != least[0]:
        yield f"#{most[0]} needs most, {most[1].launches_needed}"
    yield "set replicates: {launches: N} in the matrix and run it again"


def _rests(c: Comparison) -> str:
    """Name what verdicts rest on: the allowance for launches, and how many cells share it."""
    many = f"; corrected for {len(c.cells)} cells" if len(c.cells) > 1 else ""
    once = any(min(cell.launches) == 1 for cell in c.cells)
    single = "; one launch an arm: a slow launch cannot be told from a slow arm" if once else ""
    return f"rests on: {c.launch_noise}{many}{single}"
