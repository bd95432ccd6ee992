"""What was accepted: accept_len with intervals, and the positions where drafts are lost."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from specbench.report import cells
from specbench.report.cells import cell_rows
from specbench.report.findings.acceptance_slices import facts, inactive, slices
from specbench.report.findings.speed import MAX_SENTENCES
from specbench.report.inputs import Evidence
from specbench.report.numbers import between, percent, show
from specbench.report.statements import Section, Statement, Table, count
from specbench.stats.ratio import Sums, log_ratio


def section(evidence: Evidence) -> Section:
    """Say how many tokens a verify step emitted, per cell."""
    pooled = acceptances(evidence)
    names = ["algorithm", *cells.varying(evidence.trials)]
    rows = [
        row for row in cell_rows(evidence) if row["algorithm"] != evidence.control and row["trials"]
    ]
    statements, lines, silent = [], [], []
    for row in rows:
        label, one = cells.cell_label(row, names), pooled.get(row["cell_id"])
        if one is None:
            silent.append(row["cell_id"])
            continue
        interval = between(one.low, one.high) if one.low is not None and one.high else None
        lines.append((label, show(one.accept_len), interval, one.steps, one.prompts))
        if interval and len(rows) <= MAX_SENTENCES:
            statements.append(
                Statement(
                    kind="claim",
                    text=f"{label}: accept_len {show(one.accept_len)}, 95 % interval {interval}"
                    f" (n = {count(one.prompts, 'prompt')}, {count(one.steps, 'verify step')}).",
                    rows=(row["cell_id"],),
                )
            )
    if silent:
        statements.append(
            Statement(
                kind="withheld",
                text=f"Nothing is said about accept_len of {count(len(silent), 'cell')}: the server"
                " gave no per-request counters.",
                rows=tuple(silent),
            )
        )
    table = Table(
        heads=("cell", "accept_len", "95 % interval", "verify steps", "prompts"),
        rows=tuple(lines),
        caption="Acceptance per cell; prompts are the independent units of the interval",
    )
    return Section(
        anchor="acceptance",
        title="What is accepted",
        intro="accept_len is the number of tokens emitted a verify step, the bonus token"
        " included: plain decoding is 1.",
        statements=(
            *inactive(evidence),
            *statements,
            *_first_position(evidence),
            *(facts(evidence) if lines else ()),
        ),
        tables=(table, *slices(evidence)) if lines else (),
        plots=("accept_len", "acceptance_by_position", "acceptance_histogram"),
        lead=True,
        short=_short(lines),
    )


def _short(lines: list[tuple[Any, ...]]) -> str:
    """Name the cells that accept least and most."""
    if not lines:
        return ""
    ranked = sorted(lines, key=lambda line: float(str(line[1]).replace(",", "")))
    least, most = ranked[0], ranked[-1]
    return f"accept_len goes from {least[1]} ({least[0]}) to {most[1]} ({most[0]})."


def _first_position(evidence: Evidence) -> list[Statement]:
    """Say how often the first draft was accepted, and all of them, by algorithm."""
    found: dict[str, list[list[int]]] = {}
    for row in cells.usable(evidence.trials).to_dict("records"):
        histogram = evidence.histograms.get(str(row["trial_id"]))
        if histogram and sum(histogram) and len(histogram) > 1:
            found.setdefault(str(row["algorithm"]), []).append(histogram)
    return [_accepted(algorithm, histograms) for algorithm, histograms in found.items()]


def _accepted(algorithm: str, histograms: list[list[int]]) -> Statement:
    """Count for each share only the steps that could: a smaller budget never accepts the most."""
    longest = max(map(len, histograms))
    could = [histogram for histogram in histograms if len(histogram) == longest]
    steps, most = sum(map(sum, histograms)), sum(map(sum, could))
    first = sum(sum(histogram[1:]) for histogram in histograms)
    full = sum(histogram[-1] for histogram in could)
    every = f"accepted all {longest - 1}"
    if most < steps:
        every = f"of the {count(most, 'step')} that had {longest - 1} drafts {every}"
    return Statement(
        kind="fact",
        text=f"{algorithm}: {percent(first / steps)} of verify steps accepted the first draft"
        f" token, {percent(full / most)} {every} (n = {count(steps, 'verify step')} over all its"
        " cells; the last step of a reply may have had room for fewer).",
    )


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Pooled accept_len of one cell, its 95 % interval, and the steps and prompts behind it.

    `low`/`high` are None where fewer than two prompts were met.
    """

    cell_id: str
    accept_len: float
    low: float | None
    high: float | None
    steps: int
    prompts: int


@lru_cache(maxsize=4)
def acceptances(evidence: Evidence) -> dict[str, Acceptance]:
    """Pool the per-request counters of each cell: 1 + accepted drafts / verify steps."""
    requests = evidence.requests
    if requests.empty:
        return {}
    good = requests[
        (requests["phase"] == "measured")
        & (requests["status"] == "ok")
        & (requests["spec_verify_ct"] > 0)
        & requests["spec_accepted"].notna()
    ]
    sums = good.groupby(["cell_id", "prompt_id"], observed=True)[
        ["spec_accepted", "spec_verify_ct"]
    ].sum()
    return {
        str(cell): _pooled(str(cell), part)
        for cell, part in sums.groupby(level="cell_id", observed=True)
    }


def _pooled(cell_id: str, part: pd.DataFrame) -> Acceptance:
    steps = part["spec_verify_ct"].to_numpy(dtype=float)
    emitted = steps + part["spec_accepted"].to_numpy(dtype=float)
    effect = log_ratio(Sums(numerator=emitted, denominator=steps))
    low, high = effect.ratio_interval() if np.isfinite(effect.se) else (None, None)
    return Acceptance(
        cell_id=cell_id,
        accept_len=effect.ratio,
        low=low,
        high=high,
        steps=int(steps.sum()),
        prompts=len(part),
    )


def by_position(histogram: list[int]) -> list[float]:
    """Give, for each draft position from 1, the share of verify steps that accepted it.

    `histogram[k]` counts the steps that accepted exactly k drafts; position j was accepted by all
    steps with k >= j.
    """
    steps = sum(histogram)
    tails = np.cumsum(histogram[::-1])[::-1]
    return [float(tail) / steps for tail in tails[1:]] if steps else []
