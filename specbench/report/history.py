"""One cell over weeks: its level in each recording, and where the level changed."""

from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from specbench.report import cells, theme
from specbench.report.inputs import Evidence, Source, evidence_of
from specbench.report.numbers import show, times
from specbench.report.statements import Statement, count
from specbench.stats.change_points import ChangePoint, change_points

MIN_POINTS = 6


@dataclass(frozen=True, kw_only=True)
class Point:
    """One launch of a cell: when it was measured and the mean of its trials."""

    started_at: str
    recording: str
    block_id: str
    tok_s: float
    trials: int


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A cell that several recordings measured, in order of time."""

    cell_id: str
    label: str
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]

    def caption(self) -> str:
        """Say what a plot of the trend shows."""
        return f"{self.label}; n = {len(self.points)} launches; dashed: changes of level."

    def statements(self) -> list[Statement]:
        """Say where the level changed, or that no change is sure."""
        n = count(len(self.points), "launch", "launches")
        recordings = len({point.recording for point in self.points})
        if len(self.points) < MIN_POINTS:
            return [
                Statement(
                    kind="withheld",
                    text=f"{self.label}: {n} in {recordings} recordings are too few to speak of a"
                    f" change (from {MIN_POINTS} on).",
                    rows=(self.cell_id,),
                )
            ]
        if not self.changes:
            return [
                Statement(
                    kind="withheld",
                    text=f"{self.label}: no change of level is claimed over {n} in"
                    f" {recordings} recordings.",
                    rows=(self.cell_id,),
                )
            ]
        return [self._change(change) for change in self.changes]

    def _change(self, change: ChangePoint) -> Statement:
        before, after = self.points[change.index - 1], self.points[change.index]
        return Statement(
            kind="claim",
            text=f"{self.label}: tok_s changed by {times(change.ratio)} between"
            f" {before.started_at[:10]} ({before.recording}) and {after.started_at[:10]}"
            f" ({after.recording}) (permutation p = {show(change.p)}, n ="
            f" {count(len(self.points), 'launch', 'launches')}).",
            rows=(self.cell_id,),
        )


def trends(sources: list[Evidence]) -> list[Trend]:
    """Follow every cell that at least two recordings measured."""
    seen: dict[str, list[Point]] = {}
    labels: dict[str, str] = {}
    for evidence in sources:
        good = cells.usable(evidence.trials)
        names = ["algorithm", *cells.varying(good)]
        for _, group in good.groupby(["cell_id", "block_id"], sort=False):
            row = group.iloc[0]
            cell = str(row["cell_id"])
            labels[cell] = cells.cell_label(cells.levels_of(row, names), dict.fromkeys(names))
            if group["tok_s"].notna().any():
                seen.setdefault(cell, []).append(_point(evidence, group))
    return [
        _trend(cell, labels[cell], points)
        for cell, points in seen.items()
        if len({point.recording for point in points}) > 1
    ]


def _point(evidence: Evidence, group: pd.DataFrame) -> Point:
    known = group["tok_s"].dropna()
    return Point(
        started_at=str(group["started_at"].min()),
        recording=evidence.name,
        block_id=str(group["block_id"].iloc[0]),
        tok_s=float(known.mean()),
        trials=len(known),
    )


def _trend(cell: str, label: str, points: list[Point]) -> Trend:
    ordered = tuple(sorted(points, key=lambda point: point.started_at))
    enough = len(ordered) >= MIN_POINTS
    values: list[float] = [point.tok_s for point in ordered]
    return Trend(
        cell_id=cell,
        label=label,
        points=ordered,
        changes=tuple(change_points(values)) if enough else (),
    )


@theme.themed
def history(sources: list[Source], cell_id: str, axes: Axes | None = None) -> Axes:
    """Plot one cell's tok_s over launches in order of time, with its change points.

    `sources` are recordings or evidence; `cell_id` is the content hash of the cell, equal in all.
    """
    found = [t for t in trends([evidence_of(s) for s in sources]) if t.cell_id == cell_id]
    given, axes = axes, axes or theme.new_axes()
    for trend in found:
        draw(trend, axes)
    return theme.finish(axes, given, " ".join(trend.caption() for trend in found))


def draw(trend: Trend, axes: Axes) -> None:
    """Draw one trend; dashed lines stand at changes of level."""
    at = range(len(trend.points))
    colours = theme.current().series
    axes.plot(at, [point.tok_s for point in trend.points], marker="o", color=colours[1])
    for change in trend.changes:
        axes.axvline(change.index - 0.5, color=colours[2], ls=(0, (5, 2)))
    step = max(1, len(trend.points) // 12)
    dates = [point.started_at[:10] for point in trend.points]
    axes.set_xticks(list(at)[::step], dates[::step], rotation=30)
    axes.set_ylabel("throughput (tok/s)")
    axes.set_xlabel("launch, in order of time")
    axes.set_ylim(bottom=0)
