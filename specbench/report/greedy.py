"""Greedy answers of each arm against the control's, byte for byte: what needs no verdict."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from specbench.report import cells
from specbench.report.inputs import DIGEST, Evidence


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """What one arm answered at temperature 0, beside the control at equal levels.

    `equal` of `answers` have the bytes of an answer of the control to the same prompt. `unequal`
    are the trials with another one.
    """

    arm: str
    answers: int
    equal: int
    prompts: int
    cells: tuple[str, ...]
    unequal: tuple[str, ...]


def greedy_answers(evidence: Evidence) -> list[Greedy]:
    """Compare every greedy answer with the control's; nothing where none was recorded."""
    good = _good(evidence)
    if good.empty:
        return []
    found: dict[str, list[pd.DataFrame]] = {}
    for arm, rows in _by_cell(evidence, good):
        found.setdefault(arm, []).append(rows)
    return [_told(arm, pd.concat(parts)) for arm, parts in found.items()]


def _good(evidence: Evidence) -> pd.DataFrame:
    requests = evidence.requests
    if requests.empty or DIGEST not in requests.columns:
        return requests.iloc[:0]
    return requests[
        (requests["phase"] == "measured") & (requests["status"] == "ok") & requests[DIGEST].notna()
    ]


def _by_cell(evidence: Evidence, good: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each greedy cell's answers with a column that says whether the control gave them."""
    trials = cells.usable(evidence.trials)
    if "temperature" not in trials.columns:
        return
    factors = cells.factors_of(trials)
    each = trials[trials["temperature"] == 0].drop_duplicates("cell_id").to_dict("records")
    levels = {str(row["cell_id"]): cells.levels_of(row, factors) for row in each}
    controls = {c: own for c, own in levels.items() if own["algorithm"] == evidence.control}
    for cell, own in levels.items():
        same = [c for c, control in controls.items() if cells.matches_control(own, control)]
        if cell in controls or not same:
            continue
        theirs = good[good["cell_id"].isin(same)]
        known = set(zip(theirs["prompt_id"].astype(str), theirs[DIGEST], strict=True))
        asked = {prompt for prompt, _ in known}
        mine = good[good["cell_id"] == cell]
        mine = mine[mine["prompt_id"].astype(str).isin(asked)]
        pairs = zip(mine["prompt_id"].astype(str), mine[DIGEST], strict=True)
        if len(mine):
            yield str(own["algorithm"]), mine.assign(equal=[pair in known for pair in pairs])


def _told(arm: str, rows: pd.DataFrame) -> Greedy:
    unequal = rows[~rows["equal"]]
    return Greedy(
        arm=arm,
        answers=len(rows),
        equal=int(rows["equal"].sum()),
        prompts=int(rows["prompt_id"].nunique()),
        cells=tuple(dict.fromkeys(rows["cell_id"].astype(str))),
        unequal=tuple(dict.fromkeys(unequal["trial_id"].astype(str))),
    )
