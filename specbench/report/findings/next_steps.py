"""What would decide the rest: launches, and the verdicts that were not asked for."""

import shlex
from collections.abc import Iterator

import pandas as pd

from specbench.report import cells
from specbench.report.inputs import Evidence
from specbench.report.numbers import seconds
from specbench.report.speedups import SpeedUp
from specbench.report.statements import Statement, count

MOST_LAUNCHES = 10
"""Launches of each arm beyond which a comparison is no next step but a campaign."""


def next_step(evidence: Evidence, pairs: list[SpeedUp]) -> Iterator[Statement]:
    """Say what to measure next, what it decides and what it costs; nothing where all is decided."""
    undecided = [pair for pair in pairs if not pair.lossy and pair.launches_needed]
    matrix = shlex.quote(evidence.manifest.matrix_path or "matrix.yaml")
    if not undecided:
        return
    near = [pair for pair in undecided if (pair.launches_needed or 0) <= MOST_LAUNCHES]
    wanted = near or undecided
    launches = max(pair.launches_needed or 0 for pair in wanted)
    cost = _round_seconds(evidence)
    price = f", about {seconds(cost * launches)} of measuring in all" if cost else ""
    yield Statement(
        kind="withheld",
        text=f"Not decided: {count(len(undecided), 'comparison')};"
        f" {count(launches, 'launch', 'launches')} of each arm would likely decide"
        f" {len(wanted)} of them{price}: set `replicates: {{launches: {launches}}}`.",
        rows=tuple(pair.cell_id for pair in wanted),
        command=f"specbench run {matrix}",
    )


def _round_seconds(evidence: Evidence) -> float | None:
    """Time that one launch of every server took, its trials included, as far as stamps say."""
    good = cells.usable(evidence.trials)
    stamps = pd.to_datetime(good["started_at"], errors="coerce", utc=True, format="ISO8601")
    known = stamps.dropna()
    rounds = good.groupby("cell_id")["block_id"].nunique().max() if len(good) else 0
    if len(known) < 2 or not rounds:
        return None
    span = (known.max() - known.min()).total_seconds() * len(known) / (len(known) - 1)
    return float(span / rounds) or None
