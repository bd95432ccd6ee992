"""Where drafts are accepted: by category, temperature, context, depth and prompt, an arm each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from specbench.report import cells
from specbench.report.inputs import Evidence
from specbench.report.numbers import between, percent, show
from specbench.report.statements import Statement, Table, count
from specbench.stats.ratio import Sums, log_ratio

CONTEXTS = (0, 128, 512, 2048, 8192, 32768)
"""Lower bounds of the bins of context length, in prompt tokens."""

FEWEST_STEPS = 100
"""Verify steps of a draft depth below which its share is left out."""

INACTIVE = 1.02
"""accept_len at which an arm speculates in name only: a draft in fifty is accepted."""


def slices(evidence: Evidence) -> tuple[Table, ...]:
    """Tabulate accept_len of each arm by what was asked, and its acceptance by draft depth."""
    rows = [row for arm, good in _arms(evidence) for row in _of_arm(arm, good)]
    told = Table(
        heads=("arm", "by", "slice", "accept_len", "95 % interval", "prompts"),
        rows=tuple(rows),
        caption="accept_len by category, temperature and context length, over all cells of an arm",
    )
    depths = list(_depths(evidence))
    reached = Table(
        heads=("arm", "draft depth", "accepted of those reached", "verify steps"),
        rows=tuple(depths),
        caption="Acceptance by draft depth; a step counts where it had so many drafts",
    )
    return tuple(table for table in (told, reached) if table.rows)


def facts(evidence: Evidence) -> Iterator[Statement]:
    """Say of each arm how much of its budget is used, and which prompts gain most and least."""
    for arm, good in _arms(evidence):
        proposed = good["spec_proposed"].sum()
        used = ""
        if proposed > 0:
            share = percent(good["spec_accepted"].sum() / proposed)
            used = f"uses {share} of its budget (chains and trees do not compare in this); "
        sums = good.groupby("prompt_id", observed=True)[["spec_accepted", "spec_verify_ct"]].sum()
        per_prompt = (1 + sums["spec_accepted"] / sums["spec_verify_ct"]).sort_values()
        if len(per_prompt) < 2:
            continue
        yield Statement(
            kind="fact",
            text=f"{arm}: {used}prompt `{per_prompt.index[-1]}` gains most (accept_len"
            f" {show(float(per_prompt.iloc[-1]))}), `{per_prompt.index[0]}` least"
            f" ({show(float(per_prompt.iloc[0]))}; n = {count(len(per_prompt), 'prompt')}).",
            rows=tuple(dict.fromkeys(good["cell_id"].astype(str))),
        )


def inactive(evidence: Evidence) -> Iterator[Statement]:
    """Name the cells that speculate in name only: hardly a draft is accepted."""
    rows = [
        row
        for row in cells.cell_rows(evidence)
        if row["algorithm"] != evidence.control
        and row["accept_len"] is not None
        and row["accept_len"] < INACTIVE
    ]
    if rows:
        yield Statement(
            kind="flag",
            text=f"`speculation_inactive`: {count(len(rows), 'cell')} of a speculative arm"
            f" {'has' if len(rows) == 1 else 'have'} an accept_len below {INACTIVE}: drafting costs"
            " and gives nothing there. Look whether the drafter is the target's.",
            rows=tuple(row["cell_id"] for row in rows),
        )


def _arms(evidence: Evidence) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each speculative arm with its counted replies and their trials' temperature."""
    requests, trials = evidence.requests, cells.usable(evidence.trials)
    if requests.empty:
        return
    known = trials.drop_duplicates("cell_id").set_index("cell_id")
    good = requests[
        (requests["phase"] == "measured")
        & (requests["status"] == "ok")
        & (requests["spec_verify_ct"] > 0)
        & requests["spec_accepted"].notna()
    ]
    arms = good["cell_id"].astype(str).map(known["algorithm"].astype(str))
    if "temperature" in known.columns:
        good = good.assign(temperature=good["cell_id"].astype(str).map(known["temperature"]))
    for arm in dict.fromkeys(arms.dropna()):
        if arm != evidence.control:
            yield str(arm), good[arms == arm]


def _of_arm(arm: str, good: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    for name, keys in (
        ("category", good["category"].astype(str)),
        ("temperature", good.get("temperature")),
        ("context", _contexts(good["prompt_tokens"])),
    ):
        if keys is None or keys.dropna().nunique() < 2:
            continue
        for level, rows in good.groupby(keys, observed=True, sort=True):
            yield (arm, name, _level(name, level), *_pooled(rows))


def _level(name: str, level: Any) -> str:
    if name != "context":
        return cells.show_level(cells.plain(level))
    place = int(level)
    if place + 1 < len(CONTEXTS):
        return f"{CONTEXTS[place]} to {CONTEXTS[place + 1] - 1} tokens"
    return f"{CONTEXTS[place]} tokens and more"


def _contexts(tokens: pd.Series) -> pd.Series:
    """Give the number of each request's bin; missing where its prompt was not counted."""
    places = pd.Series(np.searchsorted(CONTEXTS, tokens, side="right") - 1, index=tokens.index)
    return places.where(tokens.notna())


def _pooled(rows: pd.DataFrame) -> tuple[Any, ...]:
    sums = rows.groupby("prompt_id", observed=True)[["spec_accepted", "spec_verify_ct"]].sum()
    steps = sums["spec_verify_ct"].to_numpy(dtype=float)
    emitted = steps + sums["spec_accepted"].to_numpy(dtype=float)
    effect = log_ratio(Sums(numerator=emitted, denominator=steps))
    interval = between(*effect.ratio_interval()) if np.isfinite(effect.se) else None
    return show(effect.ratio), interval, len(sums)


def _depths(evidence: Evidence) -> Iterator[tuple[Any, ...]]:
    """Yield, for each arm and depth k, the share of steps that accepted k of those that had it."""
    trials = cells.usable(evidence.trials)
    arms: dict[str, list[list[int]]] = {}
    for trial, arm in zip(trials["trial_id"], trials["algorithm"], strict=True):
        histogram = evidence.histograms.get(str(trial))
        if histogram and str(arm) != evidence.control:
            arms.setdefault(str(arm), []).append(histogram)
    for arm, histograms in arms.items():
        for depth in range(1, max(map(len, histograms))):
            could = [one for one in histograms if len(one) > depth]
            tried = sum(sum(one[depth - 1 :]) for one in could)
            hits = sum(sum(one[depth:]) for one in could)
            if tried >= FEWEST_STEPS:
                yield arm, depth, percent(hits / tried), tried
