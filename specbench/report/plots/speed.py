"""Plots of speed: throughput, per-user speed, speed-up, Pareto front, decomposition."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from specbench.report import cells, theme
from specbench.report.evidence import Source, evidence_of
from specbench.report.plots.series import (
    by_server,
    caption_of,
    load_axis,
    load_factor,
    split_by_request,
)
from specbench.report.speedups import SpeedUp, speed_ups


@theme.themed
def throughput(source: Source, axes: Axes | None = None) -> Axes:
    """Plot tok_s (tokens a second, all users together) against load, a line a server."""
    return _against_load(source, axes, "tok_s", "throughput (tok/s)")


@theme.themed
def per_user(source: Source, axes: Axes | None = None) -> Axes:
    """Plot tok_s_user (tokens a second that one user sees) against load, a line a server."""
    return _against_load(source, axes, "tok_s_user", "per user (tok/s)")


def _against_load(source: Source, axes: Axes | None, name: str, label: str) -> Axes:
    trials = source.trials
    axes = axes or theme.new_axes()
    good = cells.usable(trials)
    load, load_label = load_factor(good)
    for one in split_by_request(by_server(trials)):
        points = one.trials[[load, name]].dropna()
        if points.empty:
            continue
        means = points.groupby(load)[name].mean()
        axes.plot(means.index, means, label=one.label, **one.marks)
        axes.plot(points[load], points[name], ls="", marker=".", ms=3, color=one.marks["color"])
    load_axis(axes, _levels(good, load), load_label)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    theme.legend(axes)
    theme.caption_axes(axes, caption_of(trials, points="marks: trials, lines: their mean"))
    return axes


def _levels(good: pd.DataFrame, load: str) -> list[float]:
    return sorted({float(value) for value in good[load].dropna()}) if load in good.columns else []


@theme.themed
def speedup(source: Source, axes: Axes | None = None) -> Axes:
    """Plot the speed-up over the control against load, with 95 % intervals.

    Hollow marks have no interval; the line at 1 is the control. A crossover shows where a line
    passes it with intervals on either side.
    """
    evidence = evidence_of(source)
    axes = axes or theme.new_axes()
    axes.axhline(1, color=theme.current().ink, lw=1, zorder=1)
    load, load_label = load_factor(cells.usable(evidence.trials))
    pairs = [p for p in speed_ups(evidence) if p.ratio is not None]
    marks = {one.key: one.marks for one in by_server(evidence.trials)}
    names = cells.varying(evidence.trials)
    groups: dict[str, list[SpeedUp]] = {}
    for pair in pairs:
        rest = [name for name in names if name not in {"concurrency", "rate"}]
        groups.setdefault(cells.cell_label(pair.levels, ["algorithm", *rest]), []).append(pair)
    for number, (label, group) in enumerate(groups.items()):
        group.sort(key=lambda pair: pair.levels.get(load) or 0)
        style = _style(marks, group[0], names) | {
            "marker": theme.MARKERS[number % len(theme.MARKERS)]
        }
        _ratio_line(axes, group, load, label, style)
    load_axis(axes, _levels(cells.usable(evidence.trials), load), load_label)
    axes.set_ylabel(f"tok_s over {evidence.control}'s (ratio)")
    theme.legend(axes)
    shown = f"bars: 95 % intervals; hollow: no interval; line at 1: {evidence.control}"
    theme.caption_axes(axes, caption_of(evidence.trials, points=shown))
    return axes


def _style(marks: dict[str, dict[str, Any]], pair: SpeedUp, names: list[str]) -> dict[str, Any]:
    server = [name for name in names if name not in cells.REQUEST_SIDE]
    return dict(marks.get(cells.server_label(pair.levels, ["algorithm", *server]), {}))


def _ratio_line(
    axes: Axes, group: list[SpeedUp], load: str, label: str, style: dict[str, Any]
) -> None:
    x = [pair.levels.get(load) or 1 for pair in group]
    y = [pair.ratio or math.nan for pair in group]
    axes.plot(x, y, label=label, **style)
    colour, marker = style.get("color"), style["marker"]
    for pair, at in zip(group, x, strict=True):
        if pair.low is not None and pair.high is not None:
            ratio = pair.ratio or math.nan
            axes.errorbar(
                [at], [ratio], [[ratio - pair.low], [pair.high - ratio]], color=colour, lw=1.2
            )
        else:
            axes.plot(
                [at],
                [pair.ratio or math.nan],
                marker=marker,
                mfc=theme.current().paper,
                color=colour,
            )


@theme.themed
def pareto(source: Source, axes: Axes | None = None) -> Axes:
    """Plot throughput against per-user speed: each point a cell, the front joined.

    A cell is on the front when no other cell is better in both; cells that are not lossless are
    shown and left out of the front.
    """
    trials = source.trials
    axes = axes or theme.new_axes()
    points: list[tuple[float, float]] = []
    lossy = cells.not_lossless(trials)
    for one in by_server(trials):
        means = one.trials.groupby("cell_id")[["tok_s_user", "tok_s"]].mean().dropna()
        style = {**one.marks, "linestyle": ""}
        axes.plot(means["tok_s_user"], means["tok_s"], label=one.label, **style)
        points += [(float(x), float(y)) for x, y in means[~means.index.isin(lossy)].to_numpy()]
    front = pareto_front(points)
    axes.plot(
        [x for x, _ in front], [y for _, y in front], color=theme.current().faint, lw=1, zorder=1
    )
    axes.set_xlabel("per user (tok/s)")
    axes.set_ylabel("throughput (tok/s)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    theme.legend(axes)
    kept = " of lossless cells" if lossy else ""
    shown = f"marks: means of a cell; line: the front{kept}"
    theme.caption_axes(axes, caption_of(trials, points=shown))
    return axes


def pareto_front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the points that no other beats in both coordinates, by rising first coordinate."""
    front: list[tuple[float, float]] = []
    best = -math.inf
    for x, y in sorted(points, reverse=True):
        if y > best:
            front.append((x, y))
            best = y
    return front[::-1]


@theme.themed
def decomposition(source: Source, axes: Axes | None = None) -> Axes:
    """Plot what a speed-up is made of, in doublings: accept_len gained, step time lost.

    Bars are log2 of the ratio of accept_len, minus log2 of the ratio of step time, and log2 of
    the speed-up of tok_s; the first two add up to the third but for queueing and prefill.
    """
    evidence = evidence_of(source)
    axes = axes or theme.new_axes(height=4.6)
    pairs = [p for p in speed_ups(evidence) if p.ratio and p.accept_ratio and p.step_ratio][:24]
    palette, ink = theme.current().series, theme.current().ink
    bars = (
        ("accept_len", [math.log2(p.accept_ratio or 1) for p in pairs], palette[1], "//"),
        ("time of a step", [-math.log2(p.step_ratio or 1) for p in pairs], palette[2], ".."),
        ("tok_s", [math.log2(p.ratio or 1) for p in pairs], palette[0], ""),
    )
    for offset, (label, values, colour, hatch) in enumerate(bars):
        at = [row + (offset - 1) * 0.27 for row in range(len(pairs))]
        axes.barh(
            at, values, 0.25, label=label, color=colour, hatch=hatch, ec=theme.current().paper, lw=0
        )
    axes.axvline(0, color=ink, lw=1)
    axes.set_yticks(range(len(pairs)), [pair.label for pair in pairs])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("gain in doublings (log2 of the ratio; 1 is twice as fast)")
    theme.legend(axes)
    theme.caption_axes(
        axes,
        caption_of(evidence.trials, points=f"gains over {evidence.control} at equal levels"),
    )
    return axes
