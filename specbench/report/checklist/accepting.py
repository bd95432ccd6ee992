"""Checks of the mistakes in measuring acceptance (M2, M3, M10 to M12, M17, M18, M20)."""

from collections import Counter

import pandas as pd

from specbench.analysis.summary import RECONCILABLE_STEPS, RECONCILED_WITHIN
from specbench.backends.recorded import recorded_facts, recorded_notices
from specbench.model.verdict import Claim, RecordedVerdict
from specbench.report import cells
from specbench.report.checklist.answer import (
    Answer,
    Case,
    by_flags,
    excluded,
    flagged,
    found,
    ids,
    unknown,
)
from specbench.report.inputs import Evidence
from specbench.report.statements import count, listed

EXCESS_GREEDY_PCT = 5.0
"""Share of tokens, in percent, beyond which first choices speak of a greedy fallback."""

LEARNING_DRAFTERS = ("ngram", "suffix")


def _speculative(evidence: Evidence) -> pd.DataFrame:
    good = cells.usable(evidence.trials)
    return good[good["algorithm"] != evidence.control]


def own_counters(case: Case) -> Answer:
    """M2: the server's lifetime accept length read as this run's."""
    rows = _speculative(case.evidence)
    both = rows[rows["accept_len"].notna() & rows["accept_len_server"].notna()]
    if both.empty:
        return unknown("accept_len and the server's own figure were not both recorded")
    long = both[both["verify_steps"] >= RECONCILABLE_STEPS]
    off = long[(long["accept_len_server"] / long["accept_len"] - 1).abs() > RECONCILED_WITHIN]
    if len(off):
        gaps = (off["accept_len_server"] - off["accept_len"]).abs()
        worst = off.sort_values("accept_len_server", key=lambda _: gaps).iloc[-1]
        return found(
            f"the server's own figure differs from the per-request counters on"
            f" {count(len(off), 'trial')} (worst: {worst['accept_len_server']:.2f} against"
            f" {worst['accept_len']:.2f}); accept_len here is from the counters",
            ids(off),
        )
    if long.empty:
        return unknown(
            f"no trial had the {RECONCILABLE_STEPS:,} verify steps from which the server's own"
            " figure, which counts the warm-up too, must agree with the counters"
        )
    return excluded(
        "accept_len is from per-request counters, and the server's figure differs by no more"
        " than its warm-up and late refresh explain"
    )


def steps_counted(case: Case) -> Answer:
    """M3: completion tokens over verify steps, which counts the prefill token."""
    rows = _speculative(case.evidence)
    if rows.empty:
        return unknown("no speculative trial was measured")
    empty = rows[rows["accept_len"].isna()]
    if len(empty):
        return found(
            f"{count(len(empty), 'speculative trial has', 'speculative trials have')} no counters:"
            " accept_len is empty there, not estimated from text",
            ids(empty),
        )
    return excluded("accept_len is 1 + accepted drafts / verify steps, pooled over requests")


def _too_greedy(document: RecordedVerdict, claim: Claim) -> bool:
    """Whether a sampled claim was violated by too many first choices, not by too few."""
    if claim.effect.get("excess_greedy_pct", 0.0) > EXCESS_GREEDY_PCT:
        return True
    suspected = any(one.code == "greedy_sampling" for one in document.suspects)
    return suspected and (claim.temperature or 0) > 0


def really_sampled(case: Case) -> Answer:
    """M10: a greedy fallback makes T > 0 greedy."""
    fell_back = [
        block
        for block, facts in case.evidence.blocks.items()
        if "greedy_fallback" in recorded_notices(facts)
    ]
    answer = by_flags(
        case.evidence, "M10", else_=unknown("sampling above temperature 0 was not probed")
    )
    if answer.state == "found":
        return answer
    if fell_back:
        return found(f"the server of {listed(fell_back)} said that it verifies greedily")
    violated = [
        claim.name
        for document in case.evidence.verdicts
        for claim in document.claims
        if claim.verdict == "violated" and _too_greedy(document, claim)
    ]
    if violated:
        return found(f"excess greedy tokens above temperature 0: {listed(violated)}")
    sampled = [
        claim
        for document in case.evidence.verdicts
        for claim in document.claims
        if (claim.temperature or 0) > 0 and claim.verdict == "holds"
    ]
    if not sampled:
        return answer
    return excluded("the sampled distribution was tested above temperature 0, and it holds")


def not_simulated(case: Case) -> Answer:
    """M11: simulated acceptance left in the environment."""
    if not case.evidence.blocks:
        return by_flags(case.evidence, "M11", else_=unknown("the servers' facts were not recorded"))
    return by_flags(
        case.evidence,
        "M11",
        else_=excluded("server arguments and environment were read: no simulation"),
    )


def exact_thresholds(case: Case) -> Answer:
    """M12: acceptance thresholds below 1."""
    said = {
        block: [value for value in recorded_facts(facts).thresholds if value is not None]
        for block, facts in case.evidence.blocks.items()
    }
    low = sorted(block for block, values in said.items() if values and min(values) < 1)
    if low:
        return found(f"acceptance thresholds below 1 on {listed(low)}: lossy by configuration", low)
    seen = any(said.values())
    silent = unknown("the servers do not report their acceptance thresholds")
    return by_flags(
        case.evidence, "M12", else_=excluded("acceptance thresholds are 1") if seen else silent
    )


def drafter_state(case: Case) -> Answer:
    """M17: a drafter that learns across requests."""
    rows = _speculative(case.evidence)
    learning = rows[[str(arm).lower().startswith(LEARNING_DRAFTERS) for arm in rows["algorithm"]]]
    raised = flagged(case.evidence, "M17")
    if learning.empty and "drafter_warm" not in raised:
        return excluded("no measured drafter learns across requests")
    warm = [row for ids in raised.values() for row in ids] or _repeats(
        case.evidence, set(ids(learning))
    )
    if warm:
        return found(
            f"a drafter that learns met prompts again on {count(len(set(warm)), 'trial')}: its"
            " acceptance there is warm, not cold",
            dict.fromkeys(warm),
        )
    return excluded("drafters that learn met each prompt once a trial")


def _repeats(evidence: Evidence, trials: set[str]) -> list[str]:
    requests = evidence.requests
    mine = requests[requests["trial_id"].isin(trials)]
    asked = Counter(zip(mine["trial_id"].astype(str), mine["prompt_id"].astype(str), strict=True))
    return sorted({trial for (trial, _), times in asked.items() if times > 1})


def every_step_counted(case: Case) -> Answer:
    """M18: accept length over steps that had a draft only."""
    raised = flagged(case.evidence, "M18")
    if raised:
        return by_flags(case.evidence, "M18", else_=unknown(""))
    rows = _speculative(case.evidence)
    known = rows[rows["accept_len"].notna() & (rows["verify_steps"] > 0)]
    known = known[known["output_tokens"].notna() & (known["n_failed"] == 0)]
    if known.empty:
        return unknown("verify steps and output tokens were not both recorded")
    emitted = known["output_tokens"] - known["n_requests"]
    counted = known["accept_len"] * known["verify_steps"]
    cut_off = known["accept_len"] * known["n_requests"]  # a text's end cuts its last step short
    off = known[counted > 1.05 * (emitted + cut_off)]
    if len(off):
        return found(
            f"accept_len times verify steps exceeds the tokens that were sent on"
            f" {count(len(off), 'trial')}: some steps are not in the counters",
            ids(off),
        )
    return excluded("verify steps times accept_len account for the tokens that were sent")


def counts_agree(case: Case) -> Answer:
    """M20: counts that contradict the stream."""
    if cells.usable(case.evidence.trials).empty:
        return unknown("nothing was measured")
    fine = excluded("tokens, chunks, text and verify steps of the replies agree with each other")
    return by_flags(case.evidence, "M20", else_=fine)
