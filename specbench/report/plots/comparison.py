"""A picture of one comparison: each matched cell's ratio with the interval that decides."""

import math

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from specbench.analysis.comparison import Comparison
from specbench.report import theme
from specbench.report.comparison.answer import Row, answer_of, told_level, verdict_of

MOST_ROWS = 60


@theme.themed
def comparison(found: Comparison, axes: Axes | None = None) -> Axes:
    """Plot the ratio of each matched cell on a logarithmic axis, bars being the 95 % interval.

    A filled mark is a decided cell, a hollow one is not decided; the line at 1 is the first arm.
    """
    answer = answer_of(found)
    rows = answer.rows[:MOST_ROWS]
    given, axes = axes, axes or theme.new_axes(8.2, 1.4 + 0.24 * max(len(rows), 2))
    ink, paper = theme.current().ink, theme.current().paper
    axes.set_xscale("log")
    axes.axvline(1, color=ink, lw=1, zorder=1)
    for place, row in enumerate(rows):
        _draw(axes, place, row, paper)
    labels = [_label(row, answer.varying) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{answer.metric}: {answer.b} over {answer.a} (ratio)")
    cut = (
        f"; the first {len(rows)} of {len(answer.rows)} cells"
        if len(rows) < len(answer.rows)
        else ""
    )
    words = f"{answer.sentence} Bars: 95 % intervals that decide; hollow: not decided{cut}."
    return theme.finish(axes, given, words)


def _draw(axes: Axes, place: int, row: Row, paper: str) -> None:
    decided = row.verdict not in {"inconclusive", "no_difference"}
    colour = (
        theme.current().series[1 if row.ratio >= 1 else 2] if decided else theme.current().faint
    )
    if row.known:
        axes.plot([row.low, row.high], [place, place], color=colour, lw=1.6)
    if math.isfinite(row.ratio):
        axes.plot([row.ratio], [place], marker="o", color=colour, mfc=colour if decided else paper)


def _label(row: Row, varying: tuple[str, ...]) -> str:
    levels = ", ".join(f"{name} {told_level(row, name)}" for name in varying if name in row.levels)
    return f"{levels or 'all trials'}: {verdict_of(row)}"
