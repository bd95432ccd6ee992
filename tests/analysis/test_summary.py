import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.summary import counters_add_up, energy, raised_flags, summarise, tpot_ms
from specbench.model.columns import BY_NAME, names_from
from specbench.model.load import RequestRecord, ServiceLevels
from tests.recording.records import record, report


def test_the_definitions_of_the_contract_on_a_trial_computed_by_hand() -> None:
    row = summarise([record(1), record(2)], report(), speculative=True)

    assert row["tok_s"] == pytest.approx(18 / 2.0)
    assert row["tok_s_window"] == pytest.approx(16 / 1.0)
    assert row["ttft_ms_p50"] == pytest.approx(500)
    assert row["tpot_ms_p50"] == pytest.approx(1000 / 8)
    assert row["tok_s_user"] == pytest.approx(8.0)
    assert row["chunk_gap_ms_p50"] == pytest.approx(500)
    assert row["accept_len"] == pytest.approx(4.0)
    assert row["verify_steps"] == 4
    assert row["step_ms"] == pytest.approx(500)
    assert row["tokens_per_chunk"] == pytest.approx(3.0)
    assert row["concurrency_effective"] == pytest.approx(2.0)


def test_plain_decoding_has_accept_len_one_and_one_step_a_token() -> None:
    plain = record(1)
    plain.spec_verify_ct = plain.spec_accepted = None

    row = summarise([plain], report(), speculative=False)

    assert row["accept_len"] == 1.0
    assert row["step_ms"] == pytest.approx(1000 / 8)


def test_a_speculative_server_without_counters_has_no_accept_len() -> None:
    silent = record(1)
    silent.spec_verify_ct = silent.spec_accepted = None

    row = summarise([silent], report(), speculative=True)

    assert row["accept_len"] is None
    assert row["verify_steps"] is None


def test_accept_len_is_pooled_and_the_mean_over_requests_is_apart() -> None:
    short, long = record(1), record(2)
    short.spec_verify_ct, short.spec_accepted = 1, 7
    long.spec_verify_ct, long.spec_accepted, long.output_tokens = 9, 9, 19

    row = summarise([short, long], report(), speculative=True)

    assert row["accept_len"] == pytest.approx(1 + 16 / 10)
    assert row["accept_len_request_mean"] == pytest.approx((8 + 2) / 2)


def test_failed_requests_are_counted_and_flagged_and_never_in_a_latency() -> None:
    lost = RequestRecord(rid="x", prompt_id="p", status="failed", reason="http_5xx", end_ns=1)

    row = summarise([record(1), lost], report(), speculative=True)

    assert (row["n_requests"], row["n_failed"]) == (2, 1)
    assert row["e2e_ms_p50"] == pytest.approx(1500)
    assert "failed_requests" in raised_flags(row, report(), [], n_prompts=9)


def test_nothing_measured_is_none_everywhere() -> None:
    row = summarise([], report(), speculative=True)

    assert {name for name, value in row.items() if value is not None} == {
        "n_requests",
        "n_failed",
        "concurrency_effective",
    }


def test_prompts_from_the_prefix_cache_are_flagged() -> None:
    repeat = record(1)
    repeat.cached_tokens = 5

    row = summarise([repeat], report(), speculative=True)

    assert "prefix_cache_hits" in raised_flags(row, report(), [], n_prompts=9)
    assert "prompts_repeated" in raised_flags(row, report(), [], n_prompts=0)


@pytest.mark.parametrize(("prompts", "uneven"), [(9, False), (3, False), (2, True), (1, False)])
def test_whole_passes_over_the_prompts_repeat_none_more_than_others(
    prompts: int, uneven: bool
) -> None:
    row = summarise([record(n) for n in (1, 2, 3)], report(), speculative=True)

    assert ("prompts_repeated" in raised_flags(row, report(), [], n_prompts=prompts)) is uneven


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 10**9))
def test_tpot_never_counts_the_tokens_of_the_first_chunk(first: int, more: int, span: int) -> None:
    one = record(1)
    one.output_tokens, one.tokens_in_first_chunk = first + more, first
    one.first_token_ns, one.last_token_ns = 0, span

    assert tpot_ms(one) == pytest.approx(span / 1e6 / more)


def test_counters_that_do_not_add_up_are_flagged() -> None:
    honest, lying = record(1), record(2)
    lying.spec_histogram = [0, 0, 0, 1]

    row = summarise([honest, lying], report(), speculative=True)

    assert counters_add_up(honest)
    assert not counters_add_up(lying)
    assert "accept_counters_mismatch" in raised_flags(row, report(), [honest, lying], n_prompts=9)
    assert "accept_counters_mismatch" not in raised_flags(row, report(), [honest], n_prompts=9)


def test_a_server_that_counts_something_else_is_flagged_once_there_are_enough_steps() -> None:
    row = summarise([record(1)], report(), speculative=True) | {"accept_len_server": 2.0}

    assert "accept_counters_mismatch" not in raised_flags(row, report(), [], n_prompts=9)
    assert "accept_counters_mismatch" in raised_flags(
        row | {"verify_steps": 2000}, report(), [], n_prompts=9
    )


def test_a_summary_has_every_column_that_comes_from_requests_and_no_other() -> None:
    row = summarise([record(1)], report(), speculative=True)

    assert set(names_from("requests", optional=False)) <= set(row) <= set(names_from("requests"))
    integers = {name for name in row if BY_NAME[name].dtype == "integer"}
    assert all(row[name] is None or isinstance(row[name], int) for name in integers)


def test_percentiles_rise_and_stay_between_the_least_and_the_most() -> None:
    many = [record(number) for number in range(100)]
    for number, one in enumerate(many):
        one.first_token_ns = (number + 1) * 1_000_000

    row = summarise(many, report(), speculative=True)

    assert row["ttft_ms_p50"] == pytest.approx(50.5)
    assert row["ttft_ms_p90"] == pytest.approx(90.1)
    assert row["ttft_ms_p95"] == pytest.approx(95.05)
    assert row["ttft_ms_p99"] == pytest.approx(99.01)


def test_tpot_n_counts_the_requests_that_have_one() -> None:
    at_once = record(2)
    at_once.tokens_in_first_chunk = at_once.output_tokens

    row = summarise([record(1), at_once], report(), speculative=True)

    assert row["tpot_n"] == 1


def test_reasoning_tokens_are_added_up_where_the_server_counts_them() -> None:
    silent, thinking = record(1), record(2)
    thinking.reasoning_tokens = 5

    assert summarise([silent], report(), speculative=True)["reasoning_tokens"] is None
    assert summarise([silent, thinking], report(), speculative=True)["reasoning_tokens"] == 5


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (None, None),
        (ServiceLevels(), None),
        (ServiceLevels(ttft_ms=500.0), 2 / 2.0),
        (ServiceLevels(ttft_ms=499.0), 0.0),
        (ServiceLevels(tpot_ms=125.0, e2e_ms=1500.0), 1 / 2.0),
    ],
)
def test_goodput_counts_the_requests_that_met_every_level_asked_for(
    levels: ServiceLevels | None, expected: float | None
) -> None:
    at_once = record(2)
    at_once.tokens_in_first_chunk = at_once.output_tokens

    row = summarise([record(1), at_once], report(), speculative=True, levels=levels)

    assert row["goodput_rps"] == expected


def test_energy_is_power_over_throughput_and_nothing_without_power() -> None:
    assert energy({"gpu_power_w": 500.0, "tok_s": 100.0}) == {"energy_j_per_token": 5.0}
    assert energy({"gpu_power_w": None, "tok_s": 100.0}) == {}
    assert energy({"tok_s": 100.0}) == {}
