"""The one plot of a run: throughput and acceptance against load, a line a server."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specbench.report import cells, theme
from specbench.report.plots.panels import temperatures
from specbench.report.plots.series import (
    MEANS,
    Series,
    by_server,
    caption_of,
    load_axis,
    load_factor,
)

ROWS = (("tok_s", "throughput (tok/s)"), ("accept_len", "accept_len (tokens a step)"))


@theme.themed
def overview(trials: pd.DataFrame) -> Figure:
    """Plot tok/s and accept_len against load, one column a temperature, one line a server.

    Each small mark is one trial; the line goes through the means of the trials.
    """
    good = cells.usable(trials)
    panels = temperatures(good) or [None]
    series = by_server(trials)
    figure = theme.new_figure(0.92 + 2.8 * max(len(panels), 1.7), 4.9)
    grid = figure.subplots(2, len(panels), squeeze=False, sharex=True, sharey="row")
    for column, temperature in enumerate(panels):
        for row, (name, label) in enumerate(ROWS):
            axes = grid[row][column]
            _panel(axes, series, name, temperature)
            if row == 0 and temperature is not None:
                axes.set_title(f"temperature {cells.show_level(temperature)}", loc="left")
            if column == 0:
                axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            _label_load(axes, good, show=row == len(ROWS) - 1)
    theme.figure_legend(figure)
    theme.caption(figure, caption_of(trials, points=MEANS))
    return figure


def _panel(axes: Axes, series: list[Series], name: str, temperature: Any) -> None:
    for one in series:
        rows = one.trials
        if temperature is not None:
            rows = rows[rows["temperature"] == temperature]
        load, _ = load_factor(rows)
        if load not in rows.columns:
            continue
        points = rows[[load, name]].dropna()
        means = points.groupby(load)[name].mean()
        axes.plot(means.index, means, label=one.label, **one.marks)
        axes.plot(points[load], points[name], ls="", marker=".", ms=3, color=one.marks["color"])


def _label_load(axes: Axes, good: pd.DataFrame, *, show: bool) -> None:
    load, label = load_factor(good)
    if load in good.columns:
        load_axis(axes, sorted({float(v) for v in good[load].dropna()}), label if show else "")
