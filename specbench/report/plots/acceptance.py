"""Plots of acceptance: by factor, by draft position, as a histogram."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from specbench.report import cells, theme
from specbench.report.cells import cell_rows
from specbench.report.findings.acceptance import acceptances, by_position
from specbench.report.inputs import Evidence, Source, evidence_of
from specbench.report.plots.series import Where, by_server, caption_of, chosen


@theme.themed
def accept_len(
    source: Source, by: str | None = None, axes: Axes | None = None, where: Where = None
) -> Axes:
    """Plot accept_len with 95 % intervals against one factor, a line a combination of the others.

    `by` defaults to the first of budget, topk, temperature, concurrency that varies. accept_len
    counts the bonus token; plain decoding is 1.
    """
    evidence = evidence_of(source)
    given, axes = axes, axes or theme.new_axes()
    trials = chosen(evidence.trials, where)
    names = cells.varying(trials)
    by = by or factor_of(trials)
    lines = _lines(evidence, set(trials["cell_id"]), by, names)
    axes.axhline(1, color=theme.current().ink, lw=1, zorder=1)
    ticks = sorted({x for points in lines.values() for x, *_ in points})
    colours: dict[str, int] = {}
    for number, (label, points) in enumerate(lines.items()):
        x, y, low, high = np.array(sorted(points)).T
        server = label.split(", ", 1)[0]
        aside = 0.012 * (number - (len(lines) - 1) / 2) * (max(ticks) - min(ticks))
        axes.errorbar(
            x + aside, y, np.abs([y - low, high - y]), label=label, ls=theme.DASHES[number % 5],
            marker=theme.MARKERS[number % len(theme.MARKERS)], ms=4.5,
            color=theme.current().series[1 + colours.setdefault(server, len(colours)) % 7],
            lw=1.2, elinewidth=0.8, capsize=1.5,
        )  # fmt: skip
    axes.set_xlabel(by)
    axes.set_ylabel("accept_len (tokens a step)")
    axes.set_ylim(bottom=0)
    axes.set_xticks(ticks)
    return theme.finish(axes, given, caption_of(trials, points=INTERVALS))


INTERVALS = "bars: 95 % intervals over prompts; line at 1: plain decoding"


def factor_of(trials: pd.DataFrame) -> str:
    """Name the factor against which accept_len is plotted: the first of four that varies."""
    names = cells.varying(trials)
    choices = ("budget", "topk", "temperature", "concurrency")
    return next((name for name in choices if name in names), "concurrency")


def _lines(
    evidence: Evidence, shown: set[str], by: str, names: list[str]
) -> dict[str, list[tuple[float, float, float, float]]]:
    """Give, a line each, the points (level, accept_len, low, high) of some cells."""
    pooled = acceptances(evidence)
    lines: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    for row in cell_rows(evidence):
        if row["algorithm"] == evidence.control or row["cell_id"] not in shown:
            continue
        if row.get(by) is None or row["accept_len"] is None:
            continue
        one = pooled.get(row["cell_id"])
        low, high = (one.low, one.high) if one and one.low and one.high else (np.nan, np.nan)
        label = cells.cell_label(row, ["algorithm", *(n for n in names if n != by)])
        lines[label].append((float(row[by]), row["accept_len"], low, high))
    return lines


@theme.themed
def acceptance_by_position(source: Source, axes: Axes | None = None) -> Axes:
    """Plot the share of verify steps that accepted the draft at each position, a line a server."""
    evidence = evidence_of(source)
    given, axes = axes, axes or theme.new_axes()
    for label, histogram, marks in _histograms(evidence):
        shares = by_position(histogram)
        axes.plot(range(1, len(shares) + 1), shares, label=label, **marks)
    axes.set_xlabel("draft position")
    axes.set_ylabel("share of steps that accepted it")
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return theme.finish(axes, given, _steps_caption(evidence))


@theme.themed
def acceptance_histogram(source: Source, axes: Axes | None = None) -> Axes:
    """Plot how many drafts a verify step accepted: share of steps, a line a server."""
    evidence = evidence_of(source)
    given, axes = axes, axes or theme.new_axes()
    for label, histogram, marks in _histograms(evidence):
        total = sum(histogram)
        axes.plot(
            range(len(histogram)), [n / total for n in histogram], label=label, **marks | {"lw": 1}
        )
    axes.set_xlabel("drafts accepted in a verify step")
    axes.set_ylabel("share of verify steps")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    return theme.finish(axes, given, _steps_caption(evidence))


def _histograms(evidence: Evidence) -> Iterator[tuple[str, list[int], dict[str, Any]]]:
    """Pool histograms over the trials of each server; with the marks that it has everywhere."""
    for one in by_server(evidence.trials):
        total: list[int] = []
        for trial_id in one.trials["trial_id"]:
            histogram = evidence.histograms.get(str(trial_id)) or []
            total.extend([0] * (len(histogram) - len(total)))
            for accepted, steps in enumerate(histogram):
                total[accepted] += steps
        if sum(total):
            yield one.label, total, one.marks


def _steps_caption(evidence: Evidence) -> str:
    steps = sum(sum(histogram) for histogram in evidence.histograms.values())
    return caption_of(
        evidence.trials, points=f"{steps:,} verify steps, pooled over a server's cells"
    )
