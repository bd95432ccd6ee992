"""Laws that any comparison obeys, whatever its noise."""

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.analysis.cell_flags import few_prompts
from specbench.analysis.compare import compare
from specbench.analysis.comparison import CellComparison, Comparison, Estimate
from specbench.analysis.gate import condition
from specbench.analysis.regression import regressed
from specbench.model.block_facts import BlockFacts
from tests.analysis.frames import Side, recording

seeds = st.integers(0, 1000)
gains = st.sampled_from([0.9, 1.0, 1.02, 1.05, 1.3])
few = settings(max_examples=12, deadline=None)
Tables = tuple[pd.DataFrame, pd.DataFrame, dict[str, BlockFacts]]


def equal_arms(seed: int, gain: float = 1.0, launches: int = 3, **changes: object) -> Tables:
    shared: dict[str, object] = {"accept_len": 3.0, "launches": launches, "concurrency": (1, 2)}
    sides = (
        Side("dflash", step_ms=10.0, **shared),  # type: ignore[arg-type]
        Side("eagle", step_ms=10.0 / gain, **shared | changes),  # type: ignore[arg-type]
    )
    return recording(*sides, seed=seed)


def judged(tables: Tables, a: str = "dflash", b: str = "eagle") -> Comparison:
    return compare(*tables, a, b, details=False)


def figures(cell: CellComparison) -> list[Estimate]:
    return [cell.this_workload, cell.such_workloads or cell.this_workload]


@few
@given(seeds, gains)
def test_the_verdict_follows_from_the_interval_that_is_printed_beside_it(
    seed: int, gain: float
) -> None:
    for cell in judged(equal_arms(seed, gain)).cells:
        for verdict, told in zip(
            (cell.verdict_this_workload, cell.verdict), figures(cell), strict=True
        ):
            assert (verdict == "faster") == (told.low > 1)
            assert (verdict == "slower") == (told.high < 1)
            if verdict == "no_difference":
                assert told.low_90 > 1 / 1.02
                assert told.high_90 < 1.02


@few
@given(seeds, gains)
def test_swapping_the_arms_inverts_every_figure(seed: int, gain: float) -> None:
    tables = equal_arms(seed, gain)

    forward, backward = judged(tables), judged(tables, "eagle", "dflash")

    pairs = zip(forward.cells, backward.cells, strict=True)
    for one, other in [
        *((a.this_workload, b.this_workload) for a, b in pairs),
        (forward.pooled.this_workload, backward.pooled.this_workload),
    ]:
        assert one.ratio == pytest.approx(1 / other.ratio)
        assert one.low == pytest.approx(1 / other.high)
        assert one.p_adjusted == pytest.approx(other.p_adjusted, abs=1e-3)


@few
@given(seeds, st.sampled_from([0.25, 4.0]))
def test_a_machine_of_another_speed_gives_the_same_answer(seed: int, scale: float) -> None:
    trials, requests, blocks = equal_arms(seed, 1.05)
    slower = requests.copy()
    for name in ("intended_ns", "written_ns", "first_token_ns", "last_token_ns", "end_ns"):
        slower[name] = requests[name] * scale

    usual, scaled = judged((trials, requests, blocks)), judged((trials, slower, blocks))

    for one, other in zip(usual.cells, scaled.cells, strict=True):
        assert one.this_workload.low == pytest.approx(other.this_workload.low)
        assert one.verdict == other.verdict


@few
@given(seeds)
def test_names_of_prompts_trials_and_launches_do_not_matter(seed: int) -> None:
    trials, requests, blocks = equal_arms(seed, 1.05)
    renamed = {str(block): f"x{block}" for block in blocks}
    other = (
        trials.assign(trial_id="t" + trials["trial_id"], block_id=trials["block_id"].map(renamed)),
        requests.assign(
            trial_id="t" + requests["trial_id"], prompt_id=requests["prompt_id"].map(hash)
        ),
        {renamed[str(block)]: facts for block, facts in blocks.items()},
    )

    first, again = judged((trials, requests, blocks)), judged(other)

    for one, two in zip(first.cells, again.cells, strict=True):
        assert one.this_workload.ratio == pytest.approx(two.this_workload.ratio)
        assert one.this_workload.high == pytest.approx(two.this_workload.high)


@few
@given(seeds, gains)
def test_the_gate_and_the_verdict_use_one_interval(seed: int, gain: float) -> None:
    answer = judged(equal_arms(seed, gain))

    lost = regressed(answer, condition("speedup < 1.0"))

    assert (lost == "yes") == any(cell.verdict_this_workload == "slower" for cell in answer.cells)


def test_it_depends_only_where_two_cells_are_decided_in_opposite_directions() -> None:
    plain = Side("dflash", concurrency=(1, 64), prompts=(0, 200), step_ms=10.0)
    turned = Side("eagle", concurrency=(1, 64), prompts=(0, 200), step_ms=6.0, slowing=0.3)
    clear = Side("eagle", concurrency=(1, 64), prompts=(0, 200), step_ms=6.0)

    opposite = judged(recording(plain, turned))
    agreeing = judged(recording(plain, clear))

    assert {cell.verdict for cell in opposite.cells} == {"faster", "slower"}
    assert (opposite.verdict, agreeing.verdict) == ("mixed", "faster")


def test_levels_that_differ_are_told_apart() -> None:
    sides = [
        Side(name, {"temperature": t}, concurrency=(1, 2, 4), step_ms=step, launches=3)
        for name, t, step in (
            ("dflash", 0.0, 10.0), ("dflash", 1.0, 10.0), ("eagle", 0.0, 5.0), ("eagle", 1.0, 9.0),
        )
    ]  # fmt: skip

    answer = judged(recording(*sides))

    told = {part.scope: part for part in answer.by if part.factor == "temperature"}
    assert set(told) == {"temperature=0", "temperature=1"}
    assert told["temperature=0"].this_workload.low > 1.5
    assert told["temperature=1"].this_workload.high < 1.5
    assert (told["temperature=0"].differs_p or 1.0) < 0.01


def test_an_order_with_one_arm_always_later_withholds_a_small_effect() -> None:
    trials, requests, blocks = equal_arms(1, 1.1)
    launches = sorted(blocks)
    fixed = trials.assign(started_at=trials["block_id"].map(launches.index))
    turn = {block: place for place, block in enumerate(_abba(launches))}
    even = trials.assign(started_at=trials["block_id"].map(turn))

    held, sound = judged((fixed, requests, blocks)), judged((even, requests, blocks))

    assert {cell.verdict for cell in held.cells} == {"inconclusive"}
    assert held.cells[0].doubts[0].startswith("order: the second arm was launched later")
    assert {cell.verdict for cell in sound.cells} == {"faster"}


def _abba(launches: list[str]) -> list[str]:
    half = len(launches) // 2
    a, b = launches[:half], launches[half:]
    return [a[0], b[0], b[1], a[1], a[2], b[2]]


def test_a_factor_that_no_drift_explains_is_called_in_any_order() -> None:
    trials, requests, blocks = equal_arms(1, 2.5)
    fixed = trials.assign(started_at=trials["block_id"].map(sorted(blocks).index))

    assert judged((fixed, requests, blocks)).verdict == "faster"


@pytest.mark.parametrize("step_ms", [9.65, 9.45])
def test_few_requests_a_slot_support_no_verdict_that_five_per_cent_could_explain(
    step_ms: float,
) -> None:
    sides = [
        Side(name, concurrency=(16,), step_ms=step, launches=5, launch_sd=0.001)
        for name, step in (("dflash", 10.0), ("eagle", step_ms))
    ]

    (cell,) = judged(recording(*sides)).cells

    assert cell.verdict == "inconclusive"
    assert cell.doubts[0].startswith("few_requests: 30 requests on 16 slots")
    assert "few_requests" in cell.flags


def test_few_requests_a_slot_support_a_verdict_far_beyond_five_per_cent() -> None:
    sides = [
        Side(name, concurrency=(16,), step_ms=step, launches=5, launch_sd=0.001)
        for name, step in (("dflash", 10.0), ("eagle", 7.0))
    ]

    (cell,) = judged(recording(*sides)).cells

    assert cell.verdict == "faster"
    assert "few_requests" in cell.flags


def over_loads(step_ms: float, loads: tuple[int, ...] = (1, 2, 3, 16)) -> Comparison:
    sides = [
        Side(name, concurrency=loads, step_ms=step, launches=5, launch_sd=0.001)
        for name, step in (("dflash", 10.0), ("eagle", step_ms))
    ]
    return judged(recording(*sides))


def test_few_requests_in_some_cells_withhold_the_mean_by_their_share_only() -> None:
    every, some = over_loads(9.4, (15, 16)), over_loads(9.4)

    assert every.pooled.verdict == "inconclusive"
    assert every.pooled.why.startswith("few_requests: 30 requests on 15 slots, and 8 a slot are")
    assert every.pooled.why.endswith(
        "in 2 of 2 cells; no verdict unless its interval is beyond 5 %"
    )
    assert some.pooled.verdict == "faster"
    assert some.pooled.this_workload.ratio == pytest.approx(1 / 0.94, abs=0.01)


def test_cells_with_few_requests_count_however_large_their_own_effect_is() -> None:
    """A share that leaves out the cells that came out large would choose by what it judges."""
    large = over_loads(7.0, (15, 16))

    assert large.pooled.verdict == "faster"
    assert large.pooled.withheld == 0
    assert large.pooled.cells == 2


def test_a_mean_that_few_requests_may_move_out_of_two_per_cent_is_not_called_equal() -> None:
    some, none = over_loads(10.0), over_loads(10.0, (1, 2, 3))

    assert none.pooled.verdict == "no_difference"
    assert some.pooled.verdict == "inconclusive"
    assert some.pooled.why.endswith(
        "in 1 of 4 cells; no verdict unless its interval is beyond 1.2 %"
    )


def test_requests_that_fail_on_one_arm_withhold_the_verdict() -> None:
    trials, requests, blocks = equal_arms(3, 1.3)
    longest = requests["prompt_id"] == "p3"
    failing = requests.copy()
    mine = failing["trial_id"].isin(trials.loc[trials["algorithm"] == "eagle", "trial_id"])
    failing.loc[mine & longest, "status"] = "failed"

    answer = judged((trials, failing, blocks))

    assert answer.verdict == "inconclusive"
    assert answer.pooled.verdict == "inconclusive"
    assert answer.cells[0].doubts[0].startswith("failures_differ: 0 of 180 against 6 of 180")


def test_usage_that_one_arm_does_not_give_is_missing_and_not_zero() -> None:
    trials, requests, blocks = equal_arms(3)
    silent = requests.copy()
    mine = silent["trial_id"].isin(trials.loc[trials["algorithm"] == "eagle", "trial_id"])
    silent.loc[mine & (silent["prompt_id"] == "p3"), "output_tokens"] = math.nan

    (cell, _) = judged((trials, silent, blocks)).cells

    assert cell.doubts[0].startswith("usage_missing: ")
    assert cell.this_workload.ratio == pytest.approx(1.0, abs=0.05)


def test_a_percentile_with_few_prompts_beyond_it_is_withheld() -> None:
    trials, requests, blocks = equal_arms(3, 2.0)
    trials = trials.assign(e2e_ms_p95=[200.0 / (1 + ("b1" in b)) for b in trials["block_id"]])

    answer = compare(trials, requests, blocks, "dflash", "eagle", metric="e2e_ms_p95")

    assert answer.cells[0].doubts == ("few_prompts: 30 prompts, and a p95 needs 100",)


@pytest.mark.parametrize(("percent", "said"), [(100, "extreme of 30"), (5, "a p5 needs 100")])
def test_an_extreme_needs_more_prompts_than_there_are_and_a_low_tail_as_many_as_a_high_one(
    percent: float, said: str
) -> None:
    (doubt,) = few_prompts(30, percent)

    assert said in doubt


def test_what_was_significant_alone_only_says_so() -> None:
    levels = tuple(range(1, 25))
    told = [
        cell.why
        for seed in range(4)
        for cell in judged(
            recording(
                Side("dflash", concurrency=levels, launches=2, trials=1, prompts=(0, 10)),
                Side("eagle", concurrency=levels, launches=2, trials=1, prompts=(0, 10)),
                seed=seed,
            )
        ).cells
        if cell.this_workload.p < 0.05 and not cell.doubts
    ]

    assert all("after correction for 24 cells, p 0.0" in why for why in told)
