"""Filters, draws and validation of sampling parameters."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engine.sampling import (
    SamplingParams,
    adjust_logits,
    draw,
    filter_jointly,
    target_distribution,
)

LOGITS = np.array([1.0, 3.0, 2.0, -1.0, 2.5], dtype=np.float32)
rows = (
    st.lists(st.integers(0, 9), min_size=2, max_size=8)
    .filter(any)
    .map(lambda weights: np.array(weights) / sum(weights))
)


@given(rows)
def test_draws_have_exactly_the_given_probabilities(probs: np.ndarray) -> None:
    edges = [0.0, *np.cumsum(probs)]

    for token, (low, high) in enumerate(pairwise(edges)):
        if high - low > 1e-9:
            assert draw(probs, (low + high) / 2) == token


@given(rows, st.floats(0, 1, exclude_max=True))
def test_a_token_of_probability_zero_is_never_drawn(probs: np.ndarray, coin: float) -> None:
    assert probs[draw(probs, coin)] > 0
    assert probs[draw(probs * 0.3, np.nextafter(1.0, 0.0))] > 0


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.0), SamplingParams(top_k=1)])
def test_temperature_zero_and_top_k_one_are_greedy(params: SamplingParams) -> None:
    probs = target_distribution(LOGITS, params)

    assert params.greedy
    assert probs.tolist() == [0, 1, 0, 0, 0]


def test_filters_act_on_the_unfiltered_probabilities_and_intersect() -> None:
    probs = np.array([0.4, 0.3, 0.2, 0.1])

    # top_k keeps three; top_p alone would keep three (0.4 + 0.3 < 0.75). After renormalising
    # top_k's three to .444 .333 .222, top_p would keep two: that is the order of SGLang's verify.
    assert filter_jointly(probs, SamplingParams(top_k=3, top_p=0.75)) == pytest.approx(
        [0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9, 0]
    )
    assert np.count_nonzero(filter_jointly(probs, SamplingParams(min_p=0.6))) == 2
    assert np.count_nonzero(filter_jointly(probs, SamplingParams(top_p=0.01))) == 1


def test_penalties_follow_their_formulas() -> None:
    params = SamplingParams(
        frequency_penalty=0.5, presence_penalty=0.25, repetition_penalty=2.0, logit_bias={0: 1.5}
    )

    row = adjust_logits(LOGITS, params, Counter({1: 2, 3: 1}), ())

    assert row.tolist() == pytest.approx([2.5, (3 - 1 - 0.25) / 2, 2.0, (-1 - 0.75) * 2, 2.5])
    assert LOGITS[0] == 1.0


def test_end_tokens_are_forbidden_until_the_minimum_is_reached() -> None:
    params = SamplingParams(min_new_tokens=2)

    early = adjust_logits(LOGITS, params, Counter({0: 1}), (1, 2))
    late = adjust_logits(LOGITS, params, Counter({0: 2}), (1, 2))

    assert np.isneginf(early[[1, 2]]).all()
    assert np.isfinite(late).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": 0},
        {"min_p": 1.5},
        {"frequency_penalty": 3.0},
        {"presence_penalty": -2.5},
        {"repetition_penalty": 0.0},
        {"max_new_tokens": -1},
        {"max_new_tokens": 3, "min_new_tokens": 4},
        {"logit_bias": {1024: 1.0}},
        {"stop_token_ids": (-1,)},
        {"temperature": float("nan")},
    ],
)
def test_values_out_of_range_are_refused_by_name(wrong: dict[str, object]) -> None:
    name = list(wrong)[-1]
    rule = "token id" if name in {"logit_bias", "stop_token_ids"} else name

    with pytest.raises(ValueError, match=rule):
        SamplingParams(**wrong).validate(1024)  # type: ignore[arg-type]  # wrong on purpose
