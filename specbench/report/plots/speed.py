"""Plots of speed: throughput, per-user speed, speed-up, Pareto front, decomposition."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator

from specbench.model.matrix import LOAD_FACTORS
from specbench.report import cells, theme
from specbench.report.inputs import Evidence, Source, evidence_of
from specbench.report.plots.series import (
    MEANS,
    Where,
    by_server,
    caption_of,
    chosen,
    in_octaves,
    load_axis,
    load_factor,
    split_by_request,
)
from specbench.report.speedups import SpeedUp, speed_ups


@theme.themed
def throughput(source: Source, axes: Axes | None = None, where: Where = None) -> Axes:
    """Plot tok_s (tokens a second, all users together) against load, a line a server."""
    return _against_load(source, axes, where, "tok_s", "throughput (tok/s)")


@theme.themed
def per_user(source: Source, axes: Axes | None = None, where: Where = None) -> Axes:
    """Plot tok_s_user (tokens a second that one user sees) against load, a line a server."""
    return _against_load(source, axes, where, "tok_s_user", "per user (tok/s)")


def _against_load(source: Source, given: Axes | None, where: Where, name: str, label: str) -> Axes:
    trials = chosen(source.trials, where)
    axes = given or theme.new_axes()
    good = cells.usable(trials)
    load, load_label = load_factor(good)
    for one in split_by_request(by_server(source.trials, where)):
        points = one.trials[[load, name]].dropna()
        if points.empty:
            continue
        means = points.groupby(load)[name].mean()
        axes.plot(means.index, means, label=one.label, **one.marks)
        axes.plot(points[load], points[name], ls="", marker=".", ms=3, color=one.marks["color"])
    load_axis(axes, _levels(good, load), load_label)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    return theme.finish(axes, given, caption_of(trials, points=MEANS))


def _levels(good: pd.DataFrame, load: str) -> list[float]:
    return sorted({float(value) for value in good[load].dropna()}) if load in good.columns else []


@theme.themed
def speedup(source: Source, axes: Axes | None = None, where: Where = None) -> Axes:
    """Plot the speed-up over the control against load, with 95 % intervals.

    Hollow marks have no interval; the line at 1 is the control. A crossover shows where a line
    passes it with intervals on either side. Marks of equal load stand a little apart.
    """
    evidence = evidence_of(source)
    given, axes = axes, axes or theme.new_axes()
    axes.axhline(1, color=theme.current().ink, lw=1, zorder=1)
    trials = chosen(evidence.trials, where)
    load, load_label = load_factor(cells.usable(trials))
    groups = _ratio_lines(evidence, trials)
    levels = _levels(cells.usable(trials), load)
    for number, (label, (group, marks)) in enumerate(groups.items()):
        aside = 0.07 * (number - (len(groups) - 1) / 2)
        at = [_beside(float(pair.levels.get(load) or 1), aside, levels) for pair in group]
        _ratio_line(axes, group, at, label, marks)
    load_axis(axes, levels, load_label)
    axes.set_ylabel(f"tok_s over {evidence.control}'s (ratio)")
    return theme.finish(axes, given, caption_of(trials, points=ratios_words(evidence)))


def ratios_words(evidence: Evidence) -> str:
    """Say what the marks of the speed-up plot are."""
    return f"bars: 95 % intervals; hollow: no interval; line at 1: {evidence.control}"


def _ratio_lines(
    evidence: Evidence, trials: pd.DataFrame
) -> dict[str, tuple[list[SpeedUp], dict[str, Any]]]:
    """Group the speed-ups of some trials into lines over load, each with its marks."""
    names = [name for name in cells.varying(trials) if name not in LOAD_FACTORS]
    server = [name for name in names if name not in cells.REQUEST_SIDE]
    marks = {one.key: one.marks for one in by_server(evidence.trials)}
    shown = set(trials["cell_id"])
    groups: dict[str, tuple[list[SpeedUp], dict[str, Any]]] = {}
    for pair in speed_ups(evidence):
        if pair.ratio is None or pair.cell_id not in shown:
            continue
        label = cells.cell_label(pair.levels, ["algorithm", *names])
        key = cells.server_label(pair.levels, ["algorithm", *server])
        own = marks.get(key, {"marker": "o"})
        apart = {} if label == key else {"marker": theme.MARKERS[len(groups) % len(theme.MARKERS)]}
        groups.setdefault(label, ([], own | apart))[0].append(pair)
    return groups


def _beside(load: float, octaves: float, levels: list[float]) -> float:
    """Move a mark aside, so that intervals at one load do not cover each other."""
    if in_octaves(levels):
        return float(load * 2**octaves)
    return load + octaves * (max(levels, default=1.0) - min(levels, default=0.0)) / 4


def _ratio_line(
    axes: Axes, group: list[SpeedUp], x: list[float], label: str, style: dict[str, Any]
) -> None:
    axes.plot(x, [pair.ratio or math.nan for pair in group], label=label, **style)
    colour, marker = style.get("color"), style["marker"]
    for pair, at in zip(group, x, strict=True):
        ratio = pair.ratio or math.nan
        if pair.low is not None and pair.high is not None:
            bar = [[ratio - pair.low], [pair.high - ratio]]
            axes.errorbar([at], [ratio], bar, color=colour, lw=1.2, capsize=2)
        else:
            axes.plot([at], [ratio], marker=marker, mfc=theme.current().paper, color=colour)


@theme.themed
def pareto(source: Source, axes: Axes | None = None) -> Axes:
    """Plot throughput against per-user speed: each point a cell, the front joined.

    A cell is on the front when no other cell is better in both; cells that are not lossless are
    shown and left out of the front.
    """
    trials = source.trials
    given, axes = axes, axes or theme.new_axes()
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
    kept = " of lossless cells" if lossy else ""
    shown = f"marks: means of a cell; line: the front{kept}"
    return theme.finish(axes, given, caption_of(trials, points=shown))


def pareto_front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the points that no other beats in both coordinates, by rising first coordinate."""
    front: list[tuple[float, float]] = []
    best = -math.inf
    for x, y in sorted(points, reverse=True):
        if y > best:
            front.append((x, y))
            best = y
    return front[::-1]


MAX_BARS = 36


@theme.themed
def decomposition(source: Source, axes: Axes | None = None) -> Axes:
    """Plot what a speed-up is made of: accept_len gained, step time lost, tok_s as it came out.

    The axis is logarithmic, so that the bars add up: from 1, accept_len's ratio to the right and
    the inverse ratio of the step time to the left; what they leave is the speed-up but for queueing
    and prefill. The mark is the measured ratio of tok_s.
    """
    evidence = evidence_of(source)
    told = [p for p in speed_ups(evidence) if p.ratio and p.accept_ratio and p.step_ratio]
    pairs = told[:MAX_BARS]
    given, axes = axes, axes or theme.new_axes(8.2, 1.2 + 0.23 * max(len(pairs), 2))
    palette, ink, paper = theme.current().series, theme.current().ink, theme.current().paper
    rows = list(range(len(pairs)))
    for label, values, colour, hatch in (
        ("accept_len", [math.log2(p.accept_ratio or 1) for p in pairs], palette[1], ""),
        ("time of a step", [-math.log2(p.step_ratio or 1) for p in pairs], palette[2], "///"),
    ):
        axes.barh(rows, values, 0.62, label=label, color=colour, hatch=hatch, ec=paper, lw=0)
    axes.plot(
        [math.log2(p.ratio or 1) for p in pairs], rows, ls="", marker="D", ms=6, mfc=ink,
        mec=paper, mew=1.1, label="tok_s, measured",
    )  # fmt: skip
    axes.axvline(0, color=ink, lw=1)
    axes.set_yticks(rows, [pair.label for pair in pairs])
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MultipleLocator(1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{2.0**v:g}\N{MULTIPLICATION SIGN}"))
    axes.set_xlabel(f"ratio to {evidence.control} (each step of the axis is a doubling)")
    cut = f"; the first {len(pairs)} of {len(told)} cells" if len(told) > len(pairs) else ""
    shown = f"gains over {evidence.control} at equal levels{cut}"
    return theme.finish(axes, given, caption_of(evidence.trials, points=shown))
