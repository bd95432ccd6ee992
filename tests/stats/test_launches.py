import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.stats.contaminated import Posterior
from specbench.stats.family import cell_member, group_of, judged_together
from specbench.stats.launches import ACCEPTANCE, CLOCKS, LaunchFloor, Pairs, noise_of

seeds = st.integers(0, 10_000)


def pairs(
    launches: int = 3, trials: int = 1, prompts: int = 16, seed: int = 0, gain: float = 0.0
) -> Pairs:
    random = np.random.default_rng(seed)
    launch = np.repeat(np.arange(launches), trials)
    share = random.normal(0, 0.01, (len(launch), prompts)) + random.normal(0, 0.01, prompts)
    return Pairs(
        launch=launch,
        value=gain + random.normal(0, 0.02, launches)[launch] + share.sum(axis=1),
        share=share,
        met=np.ones(share.shape, dtype=bool),
    )


def swapped(one: Pairs) -> Pairs:
    assert one.share is not None
    return Pairs(launch=one.launch, value=-one.value, share=-one.share, met=one.met)


@given(seeds, st.integers(1, 5), st.integers(1, 3))
def test_swapping_the_arms_negates_the_effect_and_keeps_its_error(
    seed: int, launches: int, trials: int
) -> None:
    one = pairs(launches, trials, seed=seed)

    forward, backward = (
        cell_member(p, noise_of(p), group_of([p], [noise_of(p)], CLOCKS), 0, such=True).effect
        for p in (one, swapped(one))
    )

    assert forward.value == pytest.approx(-backward.value)
    assert forward.half_width() == pytest.approx(backward.half_width(), rel=1e-6)
    assert forward.p_value == pytest.approx(backward.p_value, rel=1e-6)


@given(seeds, st.integers(2, 5))
def test_repeats_split_requests_from_prompts(seed: int, launches: int) -> None:
    noise = noise_of(pairs(launches, 2, prompts=200, seed=seed))

    assert math.sqrt(noise.launch) == pytest.approx(0.01 * math.sqrt(200 / 2), rel=0.25)
    assert noise.prompts.value >= noise.requests.value


def test_one_pair_of_trials_cannot_tell_prompts_from_requests() -> None:
    noise = noise_of(pairs(1, 1))

    assert noise.same


def test_a_prompt_without_a_repeat_counts_as_noise_in_whole() -> None:
    everywhere = pairs(2, 1, prompts=10)
    assert everywhere.share is not None
    once = everywhere.share.copy()
    once[1, :5] = 0.0
    met = np.ones(once.shape, dtype=bool)
    met[1, :5] = False

    alone = noise_of(Pairs(launch=everywhere.launch, value=everywhere.value, share=once, met=met))

    kept = 10 / 9 * (once[0, :5] ** 2).sum()
    assert alone.launch * 2 > kept / 2


def test_one_launch_an_arm_cannot_call_less_than_about_nineteen_per_cent() -> None:
    quiet = Pairs(
        launch=np.zeros(3, dtype=int), value=np.zeros(3), share=np.zeros((3, 8)),
        met=np.ones((3, 8), dtype=bool),
    )  # fmt: skip
    noise = noise_of(quiet)

    effect = cell_member(quiet, noise, group_of([quiet], [noise], CLOCKS), 0, such=False).effect

    assert effect.half_width() == pytest.approx(math.log(1.19), abs=0.02)


def test_many_launches_outweigh_the_prior() -> None:
    random = np.random.default_rng(1)
    many = Pairs(launch=np.arange(400), value=random.normal(0, 0.10, 400))
    noise = noise_of(many)

    effect = cell_member(many, noise, group_of([many], [noise], ACCEPTANCE), 0, such=False).effect

    assert effect.se == pytest.approx(0.10 / 20, rel=0.15)


def test_a_floor_is_pooled_with_the_default_by_degrees_of_freedom() -> None:
    floor = LaunchFloor(sd=0.01, df=9.0, source="noise floor")

    known = CLOCKS.with_floor(floor)

    assert known.df == 10.0
    assert known.sd**2 == pytest.approx((0.02**2 + 9 * 0.01**2) / 10)
    assert known.source == "noise floor"


def test_an_outlying_launch_is_found_and_widens_the_interval() -> None:
    usual = Posterior(np.array([0.0, 0.01, -0.01, 0.0]), 1e-4, CLOCKS)
    slow = Posterior(np.array([0.0, 0.01, -0.01, -0.3]), 1e-4, CLOCKS)

    assert usual.off().max() < 0.1
    assert slow.off()[3] > 0.9
    assert slow.half_width(0.0, 0.95) > usual.half_width(0.0, 0.95)


@given(seeds, st.integers(2, 6), st.integers(1, 5))
def test_a_verdict_and_its_interval_always_agree(seed: int, cells: int, launches: int) -> None:
    random = np.random.default_rng(seed)
    members = [pairs(launches, 1, seed=seed + i, gain=random.normal(0, 0.1)) for i in range(cells)]
    noises = [noise_of(one) for one in members]
    group = group_of(members, noises, CLOCKS)

    judged = judged_together(
        [cell_member(p, n, group, 0, such=True) for p, n in zip(members, noises, strict=True)]
    )

    for one in judged:
        assert one.decided == (one.p_adjusted < 0.05)
        assert one.p_adjusted >= one.p
        assert one.half >= one.effect.half_width(0.95) * (1 - 1e-9)
        assert one.half_90 <= one.half


@given(seeds, st.integers(2, 6))
def test_the_names_and_the_order_of_cells_do_not_matter(seed: int, cells: int) -> None:
    members = [pairs(3, 1, seed=seed + i) for i in range(cells)]
    noises = [noise_of(one) for one in members]
    group = group_of(members, noises, CLOCKS)
    family = [cell_member(p, n, group, 0, such=True) for p, n in zip(members, noises, strict=True)]

    forward = judged_together(family)
    backward = judged_together(family[::-1])[::-1]

    assert [one.half for one in forward] == [one.half for one in backward]
    assert [one.p_adjusted for one in forward] == [one.p_adjusted for one in backward]
