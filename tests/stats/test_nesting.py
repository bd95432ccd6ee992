import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.stats.nesting import (
    RESTART,
    Allowance,
    Launches,
    launch_effect,
    spread,
    within_launches,
)

values = st.floats(-3, 3)
arms = st.lists(st.lists(values, min_size=1, max_size=4), min_size=1, max_size=4)


@given(arms, arms)
def test_swapping_the_arms_negates_the_effect(a: Launches, b: Launches) -> None:
    forward, backward = launch_effect(a, b), launch_effect(b, a)

    assert forward.value == pytest.approx(-backward.value)
    assert forward.se == pytest.approx(backward.se)
    assert forward.df == pytest.approx(backward.df)


@given(arms, arms, st.randoms())
def test_order_of_launches_and_trials_does_not_matter(
    a: list[list[float]], b: list[list[float]], random: object
) -> None:
    mixed = [list(reversed(launch)) for launch in reversed(a)]

    assert launch_effect(mixed, b).value == pytest.approx(launch_effect(a, b).value)
    assert launch_effect(mixed, b).se == pytest.approx(launch_effect(a, b).se)


def test_one_launch_an_arm_gets_the_allowance_however_many_trials() -> None:
    quiet = [[0.0] * 1000]

    effect = launch_effect(quiet, quiet)

    assert effect.se == pytest.approx(math.sqrt(2) * RESTART.sd)


def test_many_launches_outweigh_the_allowance() -> None:
    random = np.random.default_rng(1)
    a = [[float(v)] for v in random.normal(0, 0.10, 200)]
    b = [[float(v)] for v in random.normal(0, 0.10, 200)]

    assert launch_effect(a, b).se == pytest.approx(0.10 * math.sqrt(2 / 200), rel=0.15)


def test_a_known_allowance_is_used_as_it_is() -> None:
    known = Allowance(sd=0.01, df=math.inf, source="host history")

    effect = launch_effect([[0.0, 0.0]], [[0.1, 0.1]], restart=known)

    assert effect.se == pytest.approx(math.sqrt(2) * 0.01)
    assert math.isinf(effect.df)


def test_each_launch_weighs_the_same_however_often_it_was_measured() -> None:
    effect = launch_effect([[0.0]], [[1.0, 1.0, 1.0, 1.0], [0.0]])

    assert effect.value == pytest.approx(0.5)


def test_spread_separates_launches_from_trials() -> None:
    random = np.random.default_rng(7)
    groups = [
        [
            [float(launch + trial) for trial in random.normal(0, 0.005, 5)]
            for launch in random.normal(0, 0.02, 6)
        ]
        for _ in range(60)
    ]

    noise = spread(groups)

    assert noise.restart == pytest.approx(0.02, rel=0.1)
    assert noise.trial == pytest.approx(0.005, rel=0.1)
    assert (noise.restart_df, noise.trial_df) == (300, 1440)


def test_spread_says_nothing_without_replicates() -> None:
    noise = spread([[[1.0]]])

    assert math.isnan(noise.restart)
    assert math.isnan(noise.trial)
    assert (noise.restart_df, noise.trial_df) == (0, 0)


def test_single_trials_leave_the_variance_within_launches_unknown() -> None:
    assert within_launches([[[1.0], [2.0]]]).df == 0
