"""Plots of acceptance: by factor, by draft position, as a histogram."""

from collections import defaultdict

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from specbench.report import cells, theme
from specbench.report.acceptance import acceptances, by_position
from specbench.report.evidence import Evidence, Source, evidence_of
from specbench.report.plots.series import caption_of
from specbench.report.tables import cell_rows


@theme.themed
def accept_len(source: Source, by: str | None = None, axes: Axes | None = None) -> Axes:
    """Plot accept_len with 95 % intervals against one factor, a line a combination of the others.

    `by` defaults to the first of budget, topk, temperature, concurrency that varies. accept_len
    counts the bonus token; plain decoding is 1.
    """
    evidence = evidence_of(source)
    axes = axes or theme.new_axes()
    names = cells.varying(evidence.trials)
    choices = ("budget", "topk", "temperature", "concurrency")
    by = by or next((name for name in choices if name in names), "concurrency")
    pooled = acceptances(evidence)
    lines: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    for row in cell_rows(evidence):
        if row.get(by) is None or row["accept_len"] is None or row["algorithm"] == evidence.control:
            continue
        one = pooled.get(row["cell_id"])
        low, high = (one.low, one.high) if one and one.low and one.high else (np.nan, np.nan)
        label = cells.cell_label(row, ["algorithm", *(n for n in names if n != by)])
        lines[label].append((float(row[by]), row["accept_len"], low, high))
    axes.axhline(1, color=theme.current().ink, lw=1, zorder=1)
    for number, (label, points) in enumerate(lines.items()):
        x, y, low, high = np.array(sorted(points)).T
        axes.errorbar(
            x, y, np.abs([y - low, high - y]), label=label, ls=theme.DASHES[number % 5],
            marker=theme.MARKERS[number % len(theme.MARKERS)],
            color=theme.current().series[(number + 1) % 8], lw=1.5,
        )  # fmt: skip
    axes.set_xlabel(by)
    axes.set_ylabel("accept_len (tokens a step)")
    axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({x for points in lines.values() for x, *_ in points}))
    theme.legend(axes)
    theme.caption_axes(
        axes, caption_of(evidence.trials, points="bars: 95 % intervals over prompts; line at 1: ar")
    )
    return axes


@theme.themed
def acceptance_by_position(source: Source, axes: Axes | None = None) -> Axes:
    """Plot the share of verify steps that accepted the draft at each position, a line a server."""
    evidence = evidence_of(source)
    axes = axes or theme.new_axes()
    for number, (label, histogram) in enumerate(_histograms(evidence).items()):
        shares = by_position(histogram)
        axes.plot(
            range(1, len(shares) + 1), shares, label=label, ls=theme.DASHES[number % 5],
            marker=theme.MARKERS[number % len(theme.MARKERS)],
            color=theme.current().series[(number + 1) % 8],
        )  # fmt: skip
    axes.set_xlabel("draft position")
    axes.set_ylabel("share of verify steps that accepted it")
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    theme.legend(axes)
    theme.caption_axes(axes, _steps_caption(evidence))
    return axes


@theme.themed
def acceptance_histogram(source: Source, axes: Axes | None = None) -> Axes:
    """Plot how many drafts a verify step accepted: share of steps, a line a server."""
    evidence = evidence_of(source)
    axes = axes or theme.new_axes()
    for number, (label, histogram) in enumerate(_histograms(evidence).items()):
        total = sum(histogram)
        axes.stairs(
            [steps / total for steps in histogram],
            np.arange(len(histogram) + 1) - 0.5,
            label=label, ls=theme.DASHES[number % 5], lw=1.8,
            color=theme.current().series[(number + 1) % 8],
        )  # fmt: skip
    axes.set_xlabel("drafts accepted in a verify step")
    axes.set_ylabel("share of verify steps")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    theme.legend(axes)
    theme.caption_axes(axes, _steps_caption(evidence))
    return axes


def _histograms(evidence: Evidence) -> dict[str, list[int]]:
    """Pool histograms over the trials of each server."""
    names = cells.server_factors(cells.usable(evidence.trials))
    pooled: dict[str, list[int]] = {}
    for row in cells.usable(evidence.trials).to_dict("records"):
        histogram = evidence.histograms.get(str(row["trial_id"])) or []
        if not sum(histogram):
            continue
        levels = cells.levels_of(row, dict.fromkeys(["algorithm", *names]))
        total = pooled.setdefault(cells.server_label(levels, names), [])
        total.extend([0] * (len(histogram) - len(total)))
        for accepted, steps in enumerate(histogram):
            total[accepted] += steps
    return pooled


def _steps_caption(evidence: Evidence) -> str:
    steps = sum(sum(histogram) for histogram in evidence.histograms.values())
    return caption_of(
        evidence.trials, points=f"{steps:,} verify steps, pooled over a server's cells"
    )
