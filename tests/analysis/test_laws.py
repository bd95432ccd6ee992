"""The simulated recordings that comparisons are tested on: the queue, the laws, the tables."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.laws.queue import Engine, play
from benchmarks.laws.recording import Design, Law, simulate
from benchmarks.laws.replies import Workload, cost, draw_prompts, truth_of_such, truth_of_these
from benchmarks.laws.restarts import Outliers, Restarts, launches, positions
from benchmarks.laws.rows import Faults


def walked(work: np.ndarray, slots: int, step_ms: Callable[[int], float]) -> np.ndarray:
    """End times of one trial, event by event: each active request advances by a step a step."""
    left: dict[int, float] = {}
    waiting, ends, now = list(range(len(work))), np.zeros(len(work)), 0.0
    while waiting or left:
        while waiting and len(left) < slots:
            i = waiting.pop(0)
            left[i] = float(work[i])
        soonest = min(left, key=lambda i: left[i])
        steps = left[soonest]
        now += steps * step_ms(len(left))
        left = {i: rest - steps for i, rest in left.items() if i != soonest}
        ends[soonest] = now
    return ends


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), slots=st.integers(1, 9), slowing=st.sampled_from([0.0, 0.4]))
def test_the_queue_ends_each_request_when_a_walk_through_its_events_does(
    seed: int, slots: int, slowing: float
) -> None:
    random = np.random.default_rng(seed)
    decode = random.uniform(1, 50, (2, 20))
    prefill = random.uniform(0.1, 3, (2, 20))
    engine = Engine(step_ms=7.0, slowing=slowing)

    played = play(prefill, decode, np.full((2, 20), 100.0), slots, engine)

    for trial in range(2):
        truth = walked(prefill[trial] + decode[trial], slots, lambda n: 7.0 * n**slowing)
        assert np.allclose(played.end[trial], truth)


def test_in_the_steady_window_every_slot_is_busy_and_tokens_are_those_decoded_by_its_end() -> None:
    random = np.random.default_rng(3)
    decode = random.uniform(1, 50, (4, 30))
    tokens = np.full((4, 30), 101.0)

    played = play(np.full((4, 30), 2.0), decode, tokens, 5, Engine(slowing=0.2))

    assert np.allclose(played.busy, 5)
    closes = played.window_end[:, None]
    done = (tokens * (played.end <= closes)).sum(axis=1)
    begun = (tokens * (played.first <= closes)).sum(axis=1)
    assert (done < played.window_tokens).all()
    assert (played.window_tokens < begun).all()


def test_a_prefill_holds_up_those_who_decode_by_its_stall() -> None:
    work = np.array([[10.0, 10.0, 10.0]])
    tokens = np.full((1, 3), 11.0)

    free = play(np.ones((1, 3)), work, tokens, 1, Engine())
    held = play(np.ones((1, 3)), work, tokens, 1, Engine(stall_ms=4.0))

    assert np.allclose(held.makespan - free.makespan, 12.0)


def test_greedy_replies_repeat_and_drawn_ones_do_not() -> None:
    random = np.random.default_rng(4)
    law = Workload(request_sd=0.0)
    prompts = draw_prompts(law, random)
    asked = np.tile(np.arange(law.prompts), (2, 1))

    greedy = cost(law, prompts, asked, random, greedy=True).tokens
    drawn = cost(law, prompts, asked, random, greedy=False).tokens

    assert (greedy[0] == greedy[1]).all()
    assert (drawn[0] != drawn[1]).mean() > 0.9


def test_replayed_replies_are_those_of_the_quickstart_in_its_limits() -> None:
    random = np.random.default_rng(5)
    law = Workload(lengths="replayed")
    prompts = draw_prompts(law, random)
    asked = np.tile(np.arange(32), (50, 1))

    found = cost(law, prompts, asked, random, greedy=False)

    assert found.tokens.max() == 64
    assert 40 < found.tokens.mean() < 52
    assert (found.steps <= found.tokens).all()


def test_what_is_true_of_such_prompts_is_what_many_sets_of_these_prompts_say() -> None:
    law = Workload(suits_sd=0.15, suits_length=0.1)
    random = np.random.default_rng(6)

    sets = [
        truth_of_these(law, draw_prompts(law, random, count=4000), random, greedy=True)
        for _ in range(20)
    ]

    assert np.mean(sets) == pytest.approx(truth_of_such(law, greedy=True), abs=0.01)


@pytest.mark.parametrize("sd", [0.0, 0.01, 0.04])
def test_launches_vary_as_much_as_the_law_says(sd: float) -> None:
    random = np.random.default_rng(7)

    found = launches(Restarts(sd=sd), random, 4000, 2)

    assert found.std() == pytest.approx(sd, rel=0.05)


def test_outlying_launches_are_as_many_and_as_slow_as_the_law_says() -> None:
    random = np.random.default_rng(8)
    law = Restarts(sd=0.001, outliers=Outliers(share=0.1, size=0.15))

    found = launches(law, random, 4000, 2)

    slow = found > 0.07
    assert slow.mean() == pytest.approx(0.1, abs=0.02)
    assert found[slow].mean() == pytest.approx(np.log(1.15), abs=0.002)


def test_neighbouring_launches_are_correlated_where_the_law_says_so() -> None:
    found = launches(Restarts(sd=0.01, ar1=0.6), np.random.default_rng(9), 8000, 2)

    assert np.corrcoef(found[:-1], found[1:])[0, 1] == pytest.approx(0.6, abs=0.05)


def test_the_arms_take_turns_as_the_order_says() -> None:
    orders = {name: positions(name, 2, 2).tolist() for name in ("ABBA", "ABAB", "AABB")}

    assert orders == {
        "ABBA": [[0, 3], [1, 2]],
        "ABAB": [[0, 2], [1, 3]],
        "AABB": [[0, 1], [2, 3]],
    }


def test_without_noise_the_tables_hold_the_gain_exactly_in_every_figure() -> None:
    law = Law(workload=Workload(request_sd=0.0), restarts=Restarts(sd=0.0, trial_sd=0.0), gain=0.05)

    seen = simulate(Design(temperature=(0.0,)), law, np.random.default_rng(10))

    speeds = seen.trials.groupby("algorithm")[["tok_s", "tok_s_window", "tok_s_user"]].mean()
    assert list(speeds.loc["tree"] / speeds.loc["chain"]) == pytest.approx([1.05] * 3)
    assert set(seen.these.values()) == {np.log1p(0.05)}


def test_all_arms_launches_and_loads_ask_the_same_prompts_and_arms_in_the_same_order() -> None:
    seen = simulate(Design(launches=2, concurrency=(1, 4)), Law(), np.random.default_rng(11))

    orders = seen.requests.groupby("trial_id")["prompt_id"].agg(tuple)
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders.iloc[0]))}
    assert orders["chain.7.0/1.4.0"] == orders["tree.7.0/1.4.0"]
    assert orders["chain.7.0/1.4.0"] != orders["chain.7.1/1.4.0"]


def test_cells_of_one_launch_share_its_error() -> None:
    law = Law(workload=Workload(request_sd=0.0), restarts=Restarts(sd=0.05, trial_sd=0.0))

    seen = simulate(
        Design(launches=40, concurrency=(1, 4), temperature=(0.0,)), law, np.random.default_rng(12)
    )

    wide = seen.trials.pivot_table(index="block_id", columns="concurrency", values="tok_s_user")
    assert np.corrcoef(np.log(wide[1]), np.log(wide[4]))[0, 1] > 0.99


def test_long_replies_that_fail_on_one_arm_are_counted_and_have_no_tokens() -> None:
    law = Law(faults=Faults(fail_beyond=400.0))

    seen = simulate(Design(), law, np.random.default_rng(13))

    failed = seen.requests[seen.requests["status"] == "failed"]
    assert set(failed["trial_id"].str.split(".").str[0]) == {"tree"}
    assert failed["output_tokens"].isna().all()
    assert seen.trials["n_failed"].sum() == len(failed) > 0
    assert seen.requests.loc[seen.requests["status"] == "ok", "output_tokens"].notna().all()


def test_what_was_recorded_after_two_rounds_is_the_beginning_of_what_was_after_five() -> None:
    seen = simulate(Design(launches=5), Law(), np.random.default_rng(14))

    early = seen.first(2)

    assert set(early.trials["launch"]) == {0, 1}
    assert set(early.requests["trial_id"]) == set(early.trials["trial_id"])


def test_one_seed_makes_one_recording() -> None:
    first, again = (simulate(Design(), Law(), np.random.default_rng(15)) for _ in range(2))

    assert first.trials.equals(again.trials)
    assert first.requests.equals(again.requests)
