from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.products import BACKENDS
from specbench.model.verdict import Claim, VerdictName, Witness
from specbench.verify.statistics.diagnosis import suspects
from specbench.verify.statistics.evidence import Effect, Evidence
from specbench.verify.statistics.verdict import (
    ErrorRates,
    judge,
    overall,
    resolution,
    suspicious,
    tokens_needed,
)

RATES = ErrorRates()
SHARE, BAR = 1e-4, 7.0
CLEAN = Evidence(
    name="sampled T=1",
    stage="S1",
    method="score tests",
    n_tokens=10_000,
    concurrency=16,
    temperature=1.0,
    tests={"log-likelihood": 0.4},
    log_e=0.3,
    effects=(Effect("t_eff_pct", 0.5, -2.0, 3.0, 5.0),),
)
WITNESS = Witness(
    prompt_ids=[1], position=3, token=4, target_argmax=5, margin_nat=9.0, curl="curl", stage="GC"
)


def verdict(evidence: Evidence) -> VerdictName:
    return judge(evidence, SHARE, BAR, RATES).verdict


def test_clean_evidence_inside_its_margins_holds() -> None:
    assert verdict(CLEAN) == "holds"


def test_a_confirmed_witness_is_a_violation_whatever_else_is_true() -> None:
    assert verdict(replace(CLEAN, witnesses=(WITNESS,), lacking="coverage")) == "violated"


@pytest.mark.parametrize(("fresh", "expected"), [(0.01, "violated"), (0.5, "inconclusive")])
def test_a_small_p_value_counts_only_if_fresh_requests_repeat_it(
    fresh: float, expected: str
) -> None:
    small = replace(CLEAN, tests={"PIT": 1e-9}, fresh={"PIT": fresh})

    assert verdict(small) == expected


def test_an_unconfirmed_rejection_is_never_called_lossless() -> None:
    assert verdict(replace(CLEAN, tests={"PIT": 1e-9})) == "inconclusive"
    assert verdict(replace(CLEAN, log_e=20.0)) == "inconclusive"
    assert verdict(replace(CLEAN, log_e=20.0, fresh_log_e=9.0)) == "violated"


def test_a_deterministic_check_must_fail_twice() -> None:
    once = replace(CLEAN, fails="3 tokens ignore the bias")

    assert suspicious(once, SHARE, BAR)
    assert verdict(once) == "inconclusive"
    assert verdict(once.with_fresh(once)) == "violated"
    assert verdict(once.with_fresh(CLEAN)) == "inconclusive"


def test_a_violated_claim_says_in_words_what_convicts_it() -> None:
    seen = {
        "PIT": "900 of 2600 draws fall where 130 +- 11 are due",
        "witness": "2 tokens are wrong",
    }
    by_p = judge(
        replace(CLEAN, tests={"PIT": 1e-9, "ranks": 0.5}, fresh={"PIT": 1e-3}, seen=seen),
        SHARE,
        BAR,
        RATES,
    )
    by_token = judge(replace(CLEAN, witnesses=(WITNESS,), seen=seen), SHARE, BAR, RATES)
    clean = judge(replace(CLEAN, seen=seen), SHARE, BAR, RATES)

    assert by_p.finding.startswith(seen["PIT"])
    assert "n = 10000 tokens" in by_p.finding
    assert "fresh p = 1.0e-03" in by_p.finding
    assert by_token.finding.startswith("2 tokens are wrong")
    assert "9.0 nat below" in by_token.finding
    assert clean.finding == ""


def test_the_reason_leads_with_the_first_claim_that_has_a_size_and_names_the_rest() -> None:
    bare = replace(CLEAN, name="coins", effects=(), fails="odd", fails_again=True)
    sized = replace(CLEAN, witnesses=(WITNESS,), seen={"witness": "2 tokens are wrong"})

    _, reason = overall([judge(e, SHARE, BAR, RATES) for e in (bare, sized)], [])

    assert reason.startswith("sampled T=1: 2 tokens are wrong")
    assert reason.endswith("also violated: coins")


def test_an_interval_across_its_margin_is_inconclusive_and_has_a_price() -> None:
    wide = replace(CLEAN, effects=(Effect("t_eff_pct", 1.0, -7.0, 9.0, 5.0),))

    assert verdict(wide) == "inconclusive"
    assert tokens_needed(wide) == pytest.approx(10_000 * (4 * 1.1 - 1), rel=0.01)
    assert tokens_needed(CLEAN) == 0


def claim(verdict: VerdictName, gap: str = "") -> Claim:
    return Claim(name=verdict, verdict=verdict, method="", n_tokens=1, concurrency=1, known_gap=gap)


@given(st.lists(st.sampled_from(["holds", "violated", "inconclusive"]), max_size=6))
def test_the_run_is_as_bad_as_its_worst_claim(names: list[VerdictName]) -> None:
    found, _ = overall([claim(n) for n in names], [])

    if "violated" in names:
        assert found == "violated"
    elif "inconclusive" in names or not names:
        assert found == "inconclusive"
    else:
        assert found == "holds"


def test_a_known_upstream_gap_is_set_aside() -> None:
    found, _ = overall([claim("holds"), claim("violated", gap="min_p is ignored")], [])

    assert found == "holds"


def test_a_missing_essential_prevents_holds_but_not_violated() -> None:
    assert overall([claim("holds")], ["restarted"])[0] == "inconclusive"
    assert overall([claim("violated")], ["restarted"])[0] == "violated"


def test_resolution_is_the_far_end_of_the_widest_interval_and_pools_garbage() -> None:
    audit = replace(CLEAN, stage="GC", effects=(Effect("garbage_pct", 0.0, 0.0, 0.05),))

    seen = resolution([CLEAN, audit, audit])

    assert seen["t_eff_pct"] == 3.0
    assert seen["excess_greedy_pct"] is None
    assert seen["garbage_pct"] == pytest.approx(100 * 4.605 / 20_000, rel=1e-3)


def failing(*stages: str) -> list[str]:
    order = ("G1", "GC", "K1", "S1", "HOT", "T!=1", "frozen", "gap", "turn", "coins")
    evidences = [replace(CLEAN, name=s, stage=s) for s in order]
    claims = [claim("violated" if s in stages else "holds") for s in order]
    return [one.text for one in suspects(evidences, claims)]


@pytest.mark.parametrize(
    ("stages", "word"),
    [
        (("G1", "GC", "K1", "S1"), "mask"),
        (("GC", "K1"), "batch indexing"),
        (("K1", "S1"), "sampling kernel"),
        (("S1", "HOT"), "residual"),
        (("HOT", "T!=1"), "temperature or top_k"),
        (("T!=1",), "filter"),
        (("frozen",), "drafter"),
        (("gap",), "log-probabilities"),
        (("turn",), "prefix cache"),
        (("coins",), "coins are shared"),
    ],
)
def test_the_pattern_of_failed_stages_names_the_suspect(stages: tuple[str, ...], word: str) -> None:
    assert any(word in text for text in failing(*stages))


def test_nobody_is_suspected_when_nothing_failed() -> None:
    assert failing() == []


def test_greedy_verification_is_put_down_to_a_gap_of_the_product_only_where_it_has_one() -> None:
    greedy = replace(CLEAN, effects=(Effect("excess_greedy_pct", 99.0, 97.0, 101.0, 4.0),))
    gap = BACKENDS["sglang"].quirks.greedy_gap

    [known, *_] = suspects([greedy], [claim("violated")], greedy_gap=gap)
    [unknown, *_] = suspects([greedy], [claim("violated")])

    assert known.text == f"{unknown.text}. {gap}"
    assert "SGLang" not in unknown.text


def test_greedy_verification_and_round_profiles_name_their_cause() -> None:
    greedy = replace(CLEAN, effects=(Effect("excess_greedy_pct", 99.0, 97.0, 101.0, 4.0),))
    leafless = replace(CLEAN, profile={0: 24.0, 1: 20.0, 2: 14.0, 3: 0.2})
    deep = replace(CLEAN, profile={0: 0.1, 1: 0.3, 2: -1.0, 3: -770.0})

    assert "greedy at temperature > 0" in suspects([greedy], [claim("violated")])[0].text
    assert "no siblings" in suspects([leafless], [claim("violated")])[0].text
    assert "deepest" in suspects([deep], [claim("violated")])[0].text
