from dataclasses import replace
from typing import Any

import pytest

from specbench.verify.statistics.counters import RequestCounters, accept_len, disagreements
from specbench.verify.statistics.coverage import CoverageRule, lacking, measure

HONEST = RequestCounters(
    completion_tokens=24,
    n_ids=24,
    max_tokens=24,
    finish="length",
    verify_ct=10,
    correct=13,
    proposed=70,
    histogram=(3, 3, 2, 2),
    draft_tokens=8,
)


def test_honest_counters_agree() -> None:
    assert disagreements([HONEST] * 3) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"completion_tokens": 25}, "counts other tokens"),
        ({"max_tokens": 23}, "more tokens than max_new_tokens"),
        ({"max_tokens": 30}, "finish_reason is length"),
        ({"histogram": (3, 3, 2, 3)}, "does not sum"),
        ({"histogram": (2, 4, 2, 2)}, "accepted drafts"),
        ({"proposed": 69}, "proposed drafts"),
        ({"verify_ct": 5, "histogram": (), "proposed": 35}, "than verify steps explain"),
        ({"correct": 40, "histogram": ()}, "fewer tokens"),
    ],
)
def test_each_broken_identity_is_named(change: dict[str, Any], word: str) -> None:
    found = disagreements([HONEST, replace(HONEST, **change)])

    assert any(word in text and "1 of 2 requests" in text for text in found)


def test_a_last_step_that_is_cut_by_the_length_limit_is_honest() -> None:
    cut = replace(HONEST, completion_tokens=20, n_ids=20, max_tokens=20)

    assert disagreements([cut]) == []


def test_accept_len_pools_over_requests_and_counts_the_bonus() -> None:
    assert accept_len([HONEST, HONEST]) == pytest.approx(2.3)
    assert accept_len([replace(HONEST, verify_ct=None)]) is None


def test_coverage_refuses_what_never_speculated() -> None:
    rule = CoverageRule(rounds=20, rounds_per_depth=2)
    idle = replace(HONEST, correct=0, histogram=(10,))

    assert "nothing to verify" in lacking(measure([]), rule)
    assert "hardly active" in lacking(measure([idle] * 4), rule)
    assert "only 10 verify rounds" in lacking(measure([HONEST]), rule)
    assert lacking(measure([HONEST] * 4), rule) == ""


def test_chunk_sizes_stand_in_for_missing_counters() -> None:
    bare = RequestCounters(None, 9, 20, "stop", rounds=(1, 3, 1, 4))

    assert measure([bare]).histogram == (1, 0, 1, 1)
    assert measure([bare]).accepted == 5
