"""One panel a temperature, side by side: lines that differ in it alone stay apart."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specbench.report import cells, theme
from specbench.report.inputs import Evidence
from specbench.report.plots.series import Where, caption_of

Draw: TypeAlias = Callable[[Evidence, Axes | None, Where], Axes]

MAX_PANELS = 4


def temperatures(trials: pd.DataFrame) -> list[Any]:
    """List the temperatures of a table, rising; empty where none was set."""
    if "temperature" not in trials.columns:
        return []
    return sorted({cells.plain(value) for value in trials["temperature"]} - {None})


def by_temperature(draw: Draw, evidence: Evidence, points: str) -> Figure:
    """Draw a plot once a temperature, the first four; `points` says in the caption what is shown.

    A single temperature needs no panels, and the plot is as the function itself draws it.
    """
    levels = temperatures(cells.usable(evidence.trials))
    if len(levels) < 2:
        return theme.figure_of(draw(evidence, None, None))
    shown = levels[:MAX_PANELS]
    figure = theme.new_figure(0.92 + 2.6 * len(shown), theme.HEIGHT)
    row = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for number, (axes, level) in enumerate(zip(row, shown, strict=True)):
        draw(evidence, axes, {"temperature": level})
        axes.set_title(f"temperature {cells.show_level(level)}")
        if number:
            axes.set_ylabel("")
    theme.figure_legend(figure)
    cut = f"; the first {len(shown)} of {len(levels)} temperatures" if levels != shown else ""
    among = evidence.trials["temperature"].map(cells.plain).isin(shown)
    theme.caption(figure, caption_of(evidence.trials[among], points=points + cut))
    return figure
