from typing import Any

import msgspec
import pytest

from specbench.analysis.compare import compare
from specbench.errors import ConfoundError, InputError
from specbench.stats.launches import LaunchFloor
from tests.analysis.frames import Side, recording

AR = Side("ar")
CHAIN = Side("dflash", {"budget": 8}, accept_len=3.0, step_ms=12.0)
TREE = Side("ddtree", {"budget": 8}, accept_len=3.6, step_ms=14.4)


def test_a_faster_arm_is_called_faster_by_the_right_amount() -> None:
    answer = compare(*recording(AR, CHAIN), "ar", "dflash")

    cell = answer.cells[0]
    assert answer.verdict == "faster"
    assert cell.this_workload.low < 2.5 < cell.this_workload.high
    assert cell.such_workloads is not None
    assert cell.such_workloads.low <= cell.this_workload.low
    assert (cell.launches, cell.trials, cell.prompts) == ((2, 2), (4, 4), 30)


def test_swapping_the_arms_inverts_every_ratio() -> None:
    tables = recording(AR, CHAIN)

    forward = compare(*tables, "ar", "dflash").cells[0]
    backward = compare(*tables, "dflash", "ar").cells[0]

    assert forward.this_workload.ratio == pytest.approx(1 / backward.this_workload.ratio)
    assert forward.this_workload.low == pytest.approx(1 / backward.this_workload.high)
    assert (forward.verdict, backward.verdict) == ("faster", "slower")


def test_order_of_rows_does_not_matter() -> None:
    trials, requests, blocks = recording(AR, CHAIN)
    mixed = (
        trials.sample(frac=1, random_state=1),
        requests.sample(frac=1, random_state=2),
        dict(reversed(blocks.items())),
    )

    first = compare(trials, requests, blocks, "ar", "dflash").cells[0]
    again = compare(*mixed, "ar", "dflash").cells[0]

    assert again.this_workload.ratio == pytest.approx(first.this_workload.ratio)
    assert again.such_workloads is not None
    assert first.such_workloads is not None
    assert again.such_workloads.high == pytest.approx(first.such_workloads.high)


def test_accept_len_at_other_concurrency_is_refused_and_the_column_named() -> None:
    low = Side("dflash", {"budget": 8}, concurrency=(1,), accept_len=3.5)
    high = Side("ddtree", {"budget": 8}, concurrency=(64,), accept_len=2.0)

    with pytest.raises(ConfoundError) as refused:
        compare(*recording(low, high), "dflash", "ddtree", metric="accept_len")

    assert refused.value.columns == {"concurrency": ("1", "64")}


def test_naming_the_concurrency_in_an_arm_does_not_excuse_it() -> None:
    tables = recording(
        Side("dflash", concurrency=(1, 64), accept_len=3.0), Side("ar", concurrency=(1, 64))
    )

    with pytest.raises(ConfoundError, match="concurrency"):
        compare(
            *tables,
            "algorithm == 'dflash' and concurrency == 1",
            "algorithm == 'ar' and concurrency == 64",
            metric="accept_len",
        )


def test_matched_arms_of_equal_acceptance_are_called_equal() -> None:
    same = Side("dflash", {"budget": 8}, concurrency=(1, 64), accept_len=3.0)
    twin = Side("ddtree", {"budget": 8}, concurrency=(1, 64), accept_len=3.0)

    answer = compare(*recording(same, twin), "dflash", "ddtree", metric="accept_len")

    assert answer.verdict == "no_difference"
    assert all(cell.this_workload.detectable_pct < 3 for cell in answer.cells)


def test_only_common_levels_are_compared_and_the_rest_is_listed() -> None:
    a = Side("dflash", {"budget": 8}, concurrency=(1, 8), accept_len=3.0)
    b = Side("ddtree", {"budget": 8}, concurrency=(8, 64), accept_len=3.0)

    answer = compare(*recording(a, b), "dflash", "ddtree")

    assert [cell.levels["concurrency"] for cell in answer.cells] == [8]
    assert len(answer.unmatched) == 2
    assert "concurrency=1" in answer.unmatched[0]


def test_a_factor_that_one_arm_lacks_makes_variants() -> None:
    small = Side("ddtree", {"budget": 8}, accept_len=3.0)
    large = Side("ddtree", {"budget": 32}, accept_len=4.0)

    answer = compare(*recording(AR, small, large), "ar", "ddtree")

    assert [cell.own_b["budget"] for cell in answer.cells] == [8, 32]
    assert any("corrected for 2" in caveat for caveat in answer.caveats)


def test_a_tree_that_accepts_more_and_is_not_faster_is_explained_by_longer_steps() -> None:
    answer = compare(*recording(CHAIN, TREE), "dflash", "ddtree")

    why = answer.cells[0].decomposition
    assert why is not None
    assert why.accept_len.low > 1.15
    assert why.step_rate.high < 0.9
    assert why.speedup.low < 1.0 < why.speedup.high
    assert "longer steps take all of what acceptance gains" in why.reading
    assert answer.verdict != "faster"


def test_the_decomposition_multiplies_to_the_speed_up() -> None:
    why = compare(*recording(AR, TREE), "ar", "ddtree").cells[0].decomposition

    assert why is not None
    product = why.accept_len.ratio * why.step_rate.ratio * why.remainder.ratio
    assert product == pytest.approx(why.speedup.ratio)
    assert why.bound == pytest.approx(why.accept_len.ratio * why.step_rate.ratio)


def test_the_crossover_is_found_between_measured_concurrencies() -> None:
    plain = Side("ar", concurrency=(1, 4, 16, 64), launch_sd=0.001)
    tree = Side("ddtree", concurrency=(1, 4, 16, 64), accept_len=3.0, slowing=0.4, launch_sd=0.001)

    (turn,) = compare(*recording(plain, tree), "ar", "ddtree").crossovers

    assert turn.at == pytest.approx(3 ** (1 / 0.4), rel=0.1)
    assert turn.at is not None
    assert turn.low is not None
    assert turn.high is not None
    assert turn.low < turn.at < turn.high
    assert turn.between == (4, 64)


def test_flagged_rows_support_no_verdict() -> None:
    doubtful = Side("dflash", accept_len=3.0, flags="prompts_repeated,client_saturated")

    answer = compare(*recording(AR, doubtful), "ar", "dflash")

    assert answer.verdict == "inconclusive"
    assert answer.cells[0].doubts == ("client_saturated: the client was the bottleneck",)
    assert answer.cells[0].flags == ("prompts_repeated",)


def test_a_doubt_can_be_accepted_in_writing() -> None:
    longer = Side("dflash", accept_len=3.0, length=1.5)
    tables = recording(AR, longer)

    held = compare(*tables, "ar", "dflash")
    accepted = compare(*tables, "ar", "dflash", allow=["output_lengths_differ"])

    assert held.verdict == "inconclusive"
    assert "output_lengths_differ" in held.cells[0].why
    assert accepted.verdict == "faster"
    assert accepted.allow == ("output_lengths_differ",)


def test_different_prompts_are_refused() -> None:
    other = Side("dflash", accept_len=3.0, prompts=(20, 50))

    with pytest.raises(ConfoundError) as refused:
        compare(*recording(AR, other), "ar", "dflash")

    assert "prompts" in refused.value.columns


def test_a_violated_arm_is_shown_and_not_ranked() -> None:
    broken = Side("dflash", accept_len=3.0, lossless="violated")

    answer = compare(*recording(AR, broken), "ar", "dflash")

    ranks = {choice.configuration["algorithm"]: choice.p_best for choice in answer.ranking}
    assert answer.b.lossless == "violated"
    assert ranks == {"ar": 1.0, "dflash": None}
    assert any("not lossless" in caveat for caveat in answer.caveats)


def test_an_untested_arm_is_ranked_and_marked() -> None:
    untested = Side("dflash", accept_len=3.0, lossless="untested")

    answer = compare(*recording(AR, untested), "ar", "dflash")

    assert answer.ranking[0].configuration["algorithm"] == "dflash"
    assert answer.ranking[0].lossless == "untested"


def test_one_launch_and_one_trial_claim_no_more_than_they_can() -> None:
    once: dict[str, Any] = {"launches": 1, "trials": 1}
    tables = recording(Side("ar", **once), Side("dflash", accept_len=1.02, **once))

    answer = compare(*tables, "ar", "dflash")

    cell = answer.cells[0]
    assert answer.verdict == "inconclusive"
    assert cell.this_workload.detectable_pct > 5
    assert cell.launches_needed is not None
    assert any("launched once" in caveat for caveat in answer.caveats)


def test_the_noise_floor_of_the_host_narrows_the_default() -> None:
    tables = recording(Side("ar"), Side("dflash", accept_len=1.05))
    quiet = LaunchFloor(sd=0.002, df=50, source="noise floor")

    default = compare(*tables, "ar", "dflash").cells[0].this_workload
    known = compare(*tables, "ar", "dflash", floor=quiet)

    assert known.cells[0].this_workload.detectable_pct < default.detectable_pct / 3
    assert known.launch_noise == "noise floor"


@pytest.mark.parametrize("metric", ["tok_s", "tok_s_user", "accept_len", "step_ms", "ttft_ms_p50"])
def test_every_metric_compares_to_a_document_of_plain_json(metric: str) -> None:
    answer = compare(*recording(CHAIN, TREE), "dflash", "ddtree", metric=metric)

    document = msgspec.json.decode(msgspec.json.encode(answer))

    assert document["metric"] == metric
    assert (document["cells"][0]["such_workloads"] or document["cells"][0]["this_workload"])[
        "ratio"
    ] > 0


def test_lower_is_better_for_times() -> None:
    answer = compare(*recording(CHAIN, TREE), "dflash", "ddtree", metric="step_ms")

    assert answer.cells[0].this_workload.ratio > 1.1
    assert answer.verdict == "slower"


def test_more_acceptance_is_never_called_faster() -> None:
    answer = compare(*recording(CHAIN, TREE), "dflash", "ddtree", metric="accept_len")

    assert answer.verdict == "higher"


def test_a_metric_that_was_not_measured_is_an_error_not_a_zero() -> None:
    with pytest.raises(InputError, match="e2e_ms_p99 was not measured"):
        compare(*recording(AR, CHAIN), "ar", "dflash", metric="e2e_ms_p99")


@pytest.mark.parametrize(
    ("a", "b", "metric", "words"),
    [
        ("ar", "dflahs", "tok_s", "did you mean 'dflash'"),
        ("ar", "ar", "tok_s", "same trials"),
        ("ar", "dflash", "toks", "did you mean 'tok_s'"),
        ("ar", "algorithm = 'dflash'", "tok_s", "equality is written =="),
        ("ar", "algoritm == 'dflash'", "tok_s", "algorithm"),
        ("ar", "budget == 99", "tok_s", "selects no trial"),
    ],
)
def test_wrong_input_is_answered_with_the_way_out(a: str, b: str, metric: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        compare(*recording(AR, CHAIN), a, b, metric=metric)


def test_failed_trials_never_count() -> None:
    trials, requests, blocks = recording(AR, CHAIN)
    trials.loc[trials["algorithm"] == "dflash", "status"] = "failed"

    with pytest.raises(InputError, match="none of its 4 trials finished"):
        compare(trials, requests, blocks, "ar", "dflash")


def test_a_filter_limits_the_cells() -> None:
    tables = recording(
        Side("ar", concurrency=(1, 8)), Side("dflash", concurrency=(1, 8), accept_len=3)
    )

    answer = compare(*tables, "ar", "dflash", where=lambda levels: levels["concurrency"] == 8)

    assert [cell.levels["concurrency"] for cell in answer.cells] == [8]
    assert answer.unmatched == ()


def test_intervals_cover_the_truth_in_a_small_simulation() -> None:
    exact = recording(Side("ar", launch_sd=0), Side("dflash", accept_len=3, launch_sd=0))
    truth = compare(*exact, "ar", "dflash").cells[0].this_workload.ratio
    noisy = (Side("ar", launch_sd=0.015), Side("dflash", accept_len=3, launch_sd=0.015))

    found = [
        compare(*recording(*noisy, seed=seed), "ar", "dflash").cells[0].this_workload
        for seed in range(1, 31)
    ]

    assert sum(one.low <= truth <= one.high for one in found) >= 27
