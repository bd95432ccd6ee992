"""A report before it has a format: findings, pictures and tables of one or more recordings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specbench.model.columns import COLUMNS, Column, shown_in
from specbench.report import cells
from specbench.report.figures import Drawings, Picture, drawings
from specbench.report.findings import compose
from specbench.report.history import Trend, trends
from specbench.report.inputs import Evidence
from specbench.report.numbers import ABSENT, show, times
from specbench.report.statements import Findings, Section, Table, count, listed

SPEEDS = ("speedup", *(column.name for column in COLUMNS if column.is_speed))
"""What ranks nowhere where the output is wrong."""


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """Everything about one recording. `prefix` keeps its anchors apart from other chapters'.

    `extent` says in a line what was measured, when and where.
    """

    prefix: str
    extent: str
    evidence: Evidence
    findings: Findings
    pictures: dict[str, Picture]
    cells: Table
    trials: Table


@dataclass(frozen=True, kw_only=True)
class Document:
    """One report: a chapter a recording, and what several recordings say of one cell."""

    title: str
    chapters: tuple[Chapter, ...]
    trends: tuple[Trend, ...] = ()


def assemble(sources: list[Evidence]) -> Document:
    """Compose, draw and tabulate everything that a report shows, oldest recording first."""
    ordered = sorted(sources, key=lambda one: one.manifest.created_at or one.name)
    with drawings(ordered) as begun:
        chapters = tuple(_chapter(number, one, begun) for number, one in enumerate(ordered))
    names = list(dict.fromkeys(chapter.findings.title for chapter in chapters))
    return Document(
        title=" and ".join(names[:3]) + (" and others" if len(names) > 3 else ""),
        chapters=chapters,
        trends=tuple(trends(ordered)),
    )


def _chapter(number: int, evidence: Evidence, begun: Drawings) -> Chapter:
    findings = compose(evidence)
    tables = {"cells": _cells_table(evidence), "trials": _trials_table(evidence)}
    wanted = ["overview", *(name for section in findings.sections for name in section.plots)]
    drawn = {name: begun.picture(number, name) for name in wanted}
    shows = {name: finding_of(section) for section in findings.sections for name in section.plots}
    return Chapter(
        prefix=f"r{number}-",
        extent=_extent(evidence),
        evidence=evidence,
        findings=findings,
        pictures={
            name: replace(picture, alt=f"{shows.get(name, '')} {picture.alt}".strip())
            for name, picture in drawn.items()
            if picture is not None
        },
        **tables,
    )


def finding_of(section: Section) -> str:
    """Say in words what the pictures of a section show: its short form, else its first claim."""
    claims = [one.text for one in section.statements if one.kind in {"claim", "violated"}]
    told = section.short or next(iter(claims or [one.text for one in section.statements]), "")
    return told.replace("`", "").strip()


def _extent(evidence: Evidence) -> str:
    trials = evidence.trials
    hosts = [str(host) for host in dict.fromkeys(trials["host"])] if "host" in trials else []
    model = evidence.matrix.get("model")
    named = model.get("served_name") or model.get("path") if isinstance(model, dict) else model
    blocks = trials["block_id"].nunique() if "block_id" in trials else 0
    parts = [
        f"{count(len(trials), 'trial')} in {count(blocks, 'launch', 'launches')}",
        f"model {named}" if named else "",
        f"on {listed(hosts)}" if hosts else "",
        evidence.manifest.created_at[:16].replace("T", " "),
        f"recording {evidence.name}",
    ]
    return " \N{MIDDLE DOT} ".join(part for part in parts if part)


def _cells_table(evidence: Evidence) -> Table:
    rows = cells.cell_rows(evidence)
    factors = ["algorithm", *(n for n in cells.varying(evidence.trials) if n != "algorithm")]
    lossy = cells.not_lossless(evidence.trials)
    return Table(
        heads=(*factors, "trials", "launches", "failed",
               *(column.heading for column in cells.MEASURED), "speed-up", "lossless",
               "flags", "cell_id"),
        rows=tuple(
            (
                *(row.get(name) for name in factors),
                row["trials"], row["launches"], row["failed"],
                *(_measured(row, column.name, lossy) for column in cells.MEASURED),
                _measured(row, "speedup", lossy), row["lossless"], ", ".join(row["flags"]),
                row["cell_id"],
            )
            for row in rows
        ),
        caption="All cells: means over trials; accept_len pooled over verify steps",
        keys=tuple(row["cell_id"] for row in rows),
        leads=True,
    )  # fmt: skip


def _measured(row: Mapping[Any, Any], name: str, lossy: frozenset[str]) -> str:
    """Write a measurement; a speed of wrong output says so beside the number."""
    value = cells.plain(row.get(name))
    text = times(value) if name == "speedup" else show(value)
    marked = name in SPEEDS and str(row["cell_id"]) in lossy and text != ABSENT
    return text + cells.NOT_LOSSLESS if marked else text


def _told(row: Mapping[Any, Any], column: Column, lossy: frozenset[str]) -> Any:
    """Write one column of one trial; words stand as they are."""
    if column.name == "started_at":
        return _time(row["started_at"])
    if column.dtype == "text":
        return cells.plain(row.get(column.name))
    return _measured(row, column.name, lossy)


def _time(started_at: Any) -> str:
    return str(started_at)[:19].replace("T", " ")


def _trials_table(evidence: Evidence) -> Table:
    trials = evidence.trials
    factors = ["algorithm", *(n for n in cells.varying(trials) if n != "algorithm")]
    order = {row["cell_id"]: place for place, row in enumerate(cells.cell_rows(evidence))}
    records = sorted(trials.to_dict("records"), key=lambda row: order[str(row["cell_id"])])
    lossy = cells.not_lossless(trials)
    shown = sorted(shown_in("trials"), key=lambda column: column.name == "reason")
    return Table(
        heads=("trial_id", *factors, *(column.heading for column in shown)),
        rows=tuple(
            (
                row["trial_id"],
                *(cells.plain(row[name]) for name in factors),
                *(_told(row, column, lossy) for column in shown),
            )
            for row in records
        ),
        caption="All trials, one row each; every column is in tables/trials.csv",
        keys=tuple(str(row["trial_id"]) for row in records),
        groups=tuple(str(row["cell_id"]) for row in records),
    )
