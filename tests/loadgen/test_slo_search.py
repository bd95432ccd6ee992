"""The highest load within service levels is found in few probes, whatever it is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.loadgen.slo_search import RESOLUTION, highest_met, misses, next_probe
from specbench.model.load import ServiceLevels


def searched(bound: int, limit: int) -> dict[int, bool]:
    met: dict[int, bool] = {}
    while (level := next_probe(met, limit)) is not None:
        assert level not in met
        met[level] = level <= bound
    return met


@given(st.integers(0, 2000), st.integers(1, 1024))
def test_the_answer_is_bracketed_in_few_probes(bound: int, limit: int) -> None:
    met = searched(bound, limit)

    assert len(met) <= 2 * math.log2(limit) + 6
    assert max(met) <= limit
    best = highest_met(met)
    missed = min((level for level, good in met.items() if not good), default=None)
    if best is None:
        assert bound == 0
    elif missed is None:
        assert best == limit
    else:
        assert best <= bound < missed
        assert missed - best <= 1 or missed / best <= RESOLUTION


def test_a_load_above_one_that_missed_is_no_answer() -> None:
    assert highest_met({1: True, 2: False, 4: True}) == 1
    assert highest_met({1: False}) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ()),
        ({"ttft_ms_p90": 101.0}, ("ttft_ms_p90 is 101, above 100",)),
        ({"ttft_ms_p90": None}, ("ttft_ms_p90 is not known",)),
        ({"n_failed": 11}, ("11 of 100 requests failed",)),
        ({"n_failed": 10, "tpot_ms_p90": 1e9}, ()),
    ],
)
def test_what_is_missed_is_named(changes: dict[str, float | None], said: tuple[str, ...]) -> None:
    columns = {"n_requests": 100, "n_failed": 0, "ttft_ms_p90": 100.0, "tpot_ms_p90": 5.0}

    assert misses(columns | changes, ServiceLevels(ttft_ms=100.0)) == said
