"""Series of a plot: one a server, told apart by colour, marker and dash."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from specbench.model.matrix import LOAD_FACTORS
from specbench.report import cells, theme

Where: TypeAlias = Mapping[str, Any] | None
"""Levels to which a plot is limited, as `{"temperature": 0}`; None shows every trial."""

MEANS = "small marks: trials; lines: their means"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One server's trials, with the marks that stand for it in every plot of a report.

    `key` names the server, `label` the line: they differ where a server has several lines.
    """

    label: str
    key: str
    algorithm: str
    trials: pd.DataFrame
    marks: dict[str, Any]


def by_server(trials: pd.DataFrame, where: Where = None) -> list[Series]:
    """Split usable trials by server, each with marks of its own in every plot of a report.

    With more servers than colours an algorithm has one colour, and its variants differ by marker
    and dash; these suffice without colour too. `where` limits the trials, not the choice of marks.
    """
    good = cells.usable(trials)
    names = cells.server_factors(good)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for position, row in enumerate(good.to_dict("records")):
        key = tuple(cells.plain(row[name]) for name in ("algorithm", *names))
        groups.setdefault(key, []).append(position)
    levels = [dict(zip(("algorithm", *names), key, strict=True)) for key in groups]
    parts = [good.iloc[positions] for positions in groups.values()]
    ordered = cells.in_order(levels, names)
    marked = _marked([(levels[position], parts[position]) for position in ordered], names)
    return [replace(one, trials=chosen(one.trials, where)) for one in marked]


def _marked(
    labelled: list[tuple[dict[str, Any], pd.DataFrame]], names: list[str]
) -> Iterator[Series]:
    palette = theme.current().series
    colours: dict[str, str] = {}
    variants: dict[str, int] = {}
    for number, (levels, group) in enumerate(labelled):
        algorithm = str(levels["algorithm"])
        label = cells.server_label(levels, names)
        coloured = label if len(labelled) <= len(palette) else algorithm
        colour = colours.setdefault(coloured, palette[len(colours) % len(palette)])
        variant = variants[algorithm] = variants.get(algorithm, -1) + 1
        yield Series(
            label=label,
            key=label,
            algorithm=algorithm,
            trials=group,
            marks={
                "color": colour,
                "marker": theme.MARKERS[number % len(theme.MARKERS)],
                "linestyle": theme.DASHES[variant % len(theme.DASHES)],
            },
        )


def load_axis(axes: Axes, levels: list[float], label: str) -> None:
    """Draw a load axis in octaves, with a tick at each level that was measured."""
    if in_octaves(levels):
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(levels))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{level:g}" for level in levels])
    axes.set_xlabel(label)


def in_octaves(levels: list[float]) -> bool:
    """Whether loads spread so far that their axis is logarithmic."""
    return bool(levels) and min(levels) > 0 and max(levels) / min(levels) > 3


def chosen(trials: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Keep the trials that have the given levels."""
    for name, level in (where or {}).items():
        trials = trials[[cells.plain(value) == level for value in trials[name]]]
    return trials


def load_factor(trials: pd.DataFrame) -> tuple[str, str]:
    """Name the load factor of a table and its axis label."""
    if "rate" in trials.columns and trials["rate"].notna().any():
        return "rate", "rate (requests/s)"
    return "concurrency", "concurrency (requests in flight)"


def caption_of(trials: pd.DataFrame, *, points: str) -> str:
    """Say what a plot shows: what a point is, n, and the factors that were held."""
    good = cells.usable(trials)
    fixed = [f"{name}={cells.show_level(level)}" for name, level in cells.held(good).items()]
    counts = f"n = {len(good):,} trials in {good['block_id'].nunique()} launches"
    held = f"; held: {', '.join(fixed)}" if fixed else ""
    wrong = good[good["lossless"] == "violated"]
    arms = ", ".join(dict.fromkeys(str(arm) for arm in wrong["algorithm"]))
    wrongs = f"; not lossless: {arms}" if arms else ""
    return f"{points[:1].upper()}{points[1:]}; {counts}{held}{wrongs}."


def split_by_request(series: list[Series]) -> Iterator[Series]:
    """Split servers further by what was asked of them besides load (temperature, dataset ...)."""
    everything = pd.concat([one.trials for one in series]) if series else pd.DataFrame()
    names = [
        name
        for name in (cells.varying(everything) if len(everything) else [])
        if name in cells.REQUEST_SIDE and name not in LOAD_FACTORS
    ]
    if not names:
        yield from series
        return
    number = 0
    for one in series:
        for dash, (levels, group) in enumerate(one.trials.groupby(names, dropna=False)):
            asked = dict(zip(names, levels, strict=True))
            told = ", ".join(f"{name} {cells.show_level(v)}" for name, v in asked.items())
            marks = one.marks | {
                "linestyle": theme.DASHES[dash % len(theme.DASHES)],
                "marker": theme.MARKERS[number % len(theme.MARKERS)],
            }
            number += 1
            yield replace(one, label=f"{one.label}, {told}", trials=group, marks=marks)
