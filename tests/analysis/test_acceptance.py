import pandas as pd
import pytest

from specbench.analysis.acceptance import marginal_acceptance, profile


def requests(**changes: object) -> pd.DataFrame:
    row = {
        "phase": "measured", "status": "ok", "prompt_id": "p0", "category": "code",
        "spec_verify_ct": 10, "spec_accepted": 14, "spec_proposed": 70,
        "spec_histogram": [4, 2, 0, 4], "chunk_tokens": [1, *[3] * 4, *[2] * 6],
    }  # fmt: skip
    return pd.DataFrame([row, row | {"prompt_id": "p1"}, row | changes])


def test_acceptance_by_depth_is_conditional_on_reaching_it() -> None:
    shares = profile(requests()).by_depth

    assert [s.value for s in shares] == pytest.approx([6 / 10, 4 / 6, 4 / 4])
    assert [s.n for s in shares] == [30, 18, 12]


def test_a_depth_counts_only_steps_of_trials_that_drafted_so_many() -> None:
    narrow, wide = requests(), requests(spec_histogram=[4, 2, 0, 4])
    narrow["spec_histogram"] = [[4, 6]] * 3
    both = pd.concat([narrow.assign(trial_id="t7"), wide.assign(trial_id="t15")])

    shares = profile(both).by_depth

    assert [s.value for s in shares] == pytest.approx([12 / 20, 4 / 6, 4 / 4])
    assert [s.n for s in shares] == [60, 18, 12]


def test_acceptance_by_category_is_a_ratio_of_sums_over_prompts() -> None:
    shares = profile(requests(category="chat", spec_accepted=10, spec_verify_ct=20)).by_category

    found = {s.name: (s.value, s.n, s.low) for s in shares}
    assert found["code"][:2] == (pytest.approx(2.4), 2)
    assert found["chat"] == (pytest.approx(1.5), 1, None)


def test_acceptance_by_output_position_uses_chunks_that_are_steps() -> None:
    long = {"spec_verify_ct": 40, "chunk_tokens": [1, *[4] * 10, *[1] * 30]}

    shares = {s.name: s for s in profile(requests(**long)).by_output_position}

    assert shares["32-128"].value == pytest.approx((4 * 2 + 30 * 1) / 32)
    assert shares["0-32"].n == 10 + 10 + 8


def test_coalesced_chunks_are_no_steps() -> None:
    table = requests()
    table["chunk_tokens"] = pd.Series([[1, 20], [1, 20], None], dtype=object)

    assert profile(table).by_output_position == ()


def test_utilisation_counts_accepted_per_proposed_node() -> None:
    assert profile(requests()).utilisation == pytest.approx(14 / 70)


def test_a_server_without_counters_has_no_profile() -> None:
    empty = requests()
    empty["spec_verify_ct"] = None

    found = profile(empty)

    assert (found.by_depth, found.by_category, found.utilisation) == ((), (), None)


def test_failed_and_warm_up_requests_are_left_out() -> None:
    assert profile(requests(status="failed", spec_accepted=0)).by_category[0].value == 2.4
    assert profile(requests(phase="warmup", spec_accepted=0)).by_category[0].value == 2.4


def test_marginal_acceptance_lies_between_measured_budgets() -> None:
    assert marginal_acceptance([(32, 5.0), (8, 3.0), (16, 4.0)]) == [
        (8, 16, pytest.approx(0.125)),
        (16, 32, pytest.approx(0.0625)),
    ]
