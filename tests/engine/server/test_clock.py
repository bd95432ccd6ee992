"""The clock behaves like a GPU, and like one public table."""

import runpy
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engine.server.clock import (
    GPUS,
    MAX_DEBT_S,
    MODELS,
    Clock,
    Pace,
    Round,
    guess_model,
    round_of,
)

B200 = Clock(GPUS["b200"], MODELS["qwen3.5-4b"])
PLAIN = round_of(None, steps=0, topk=1, width=1, block=0)
clocks = st.builds(
    Clock,
    st.sampled_from(list(GPUS.values())),
    st.sampled_from(list(MODELS.values())),
    tp=st.sampled_from([1, 2, 8]),
)


def dflash(width: int) -> Round:
    return round_of("DFLASH", steps=1, topk=1, width=width, block=width)


def speed_up(n: int, width: int, accept_len: float, clock: Clock = B200) -> float:
    tokens = n * 1000
    plain = clock.step_s(PLAIN, n, tokens)
    return accept_len * plain / clock.step_s(dflash(width), n, tokens)


def test_the_public_table_is_met_within_15_per_cent() -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "clock_table.py"
    rows = runpy.run_path(str(script))["rows"]()

    assert len(rows) == 4
    assert all(abs(error) < 15 for *_, ar, spec in rows for error in (ar, spec))


def server(algorithm: str | None, width: int, **changes: object) -> dict[str, object]:
    return {
        "specbench_engine": {"gpu": "b200", "clock_model": None},
        "model_path": "embedded",
        "chunked_prefill_size": 8192,
        "speculative_algorithm": algorithm,
        "speculative_num_steps": 1,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": width,
        "speculative_dflash_block_size": width,
        "disable_overlap_schedule": False,
    } | changes


@pytest.mark.parametrize(
    ("account", "step_ms"),
    [
        (server(None, 1), 3.64),
        (server("DFLASH", 16), 6.57),
        (server("DDTREE", 16, speculative_eagle_topk=4, disable_overlap_schedule=True), 7.22),
    ],
    ids=["ar", "dflash", "ddtree"],
)
def test_the_columns_of_one_request_follow_from_its_steps(
    account: dict[str, object], step_ms: float
) -> None:
    """The figures of docs/explanation/clock.md."""
    script = Path(__file__).parents[3] / "benchmarks" / "clock_table.py"
    modelled = runpy.run_path(str(script))["modelled"]

    columns = modelled(account, accept_len=4.0, prompts=[26, 98, 186])
    longer = modelled(account, accept_len=4.0, prompts=[26, 4493, 4493])

    assert columns["step_ms"] == pytest.approx(step_ms, abs=0.01)
    assert columns["tpot_ms_p50"] == pytest.approx(columns["step_ms"] / 4)
    assert columns["tok_s_user"] * columns["tpot_ms_p50"] == pytest.approx(1000)
    assert columns["ttft_ms_p50"] == pytest.approx(6.15, abs=0.01)
    assert longer["ttft_ms_p50"] == pytest.approx(40.0, abs=1.0)


@given(clocks, st.integers(1, 200), st.integers(1, 64), st.integers(0, 10**6))
def test_more_of_anything_takes_longer(clock: Clock, n: int, width: int, kv: int) -> None:
    base = clock.step_s(dflash(width), n, kv)

    assert clock.step_s(dflash(width), n + 1, kv) >= base
    assert clock.step_s(dflash(width + 1), n, kv) >= base
    assert clock.step_s(dflash(width), n, kv + 10_000) > base


def test_speed_up_falls_with_concurrency_and_crosses_one() -> None:
    ups = [speed_up(n, 16, 5.0) for n in (1, 8, 32, 128, 256)]

    assert ups == sorted(ups, reverse=True)
    assert ups[0] > 2
    assert speed_up(256, 64, 5.0) < 1


def test_a_budget_is_almost_free_alone_and_dear_in_a_crowd() -> None:
    alone = B200.step_s(dflash(32), 1, 0) / B200.step_s(dflash(8), 1, 0)
    crowd = B200.step_s(dflash(32), 128, 0) / B200.step_s(dflash(8), 128, 0)

    assert alone < 1.2
    assert crowd > 2


def test_graphs_off_and_overlap_off_cost_time() -> None:
    eager = Clock(B200.gpu, B200.model, graph_max_bs=0)
    lone = round_of(None, steps=0, topk=1, width=1, block=0, overlap=False)

    assert eager.step_s(PLAIN, 1, 0) > 1.5 * B200.step_s(PLAIN, 1, 0)
    assert B200.step_s(lone, 1, 0) > B200.step_s(PLAIN, 1, 0)


def test_shards_help_a_large_model_and_hardly_a_small_one() -> None:
    large = MODELS["llama-3.3-70b"]
    gain_large = Clock(B200.gpu, large).step_s(PLAIN, 1, 0)
    gain_large /= Clock(B200.gpu, large, tp=8).step_s(PLAIN, 1, 0)
    gain_small = B200.step_s(PLAIN, 1, 0) / Clock(B200.gpu, B200.model, tp=8).step_s(PLAIN, 1, 0)

    assert gain_large > 2 > gain_small


def test_an_empty_batch_takes_no_time() -> None:
    assert B200.step_s(PLAIN, 0, 0) == 0.0


@given(clocks, st.integers(1, 4000), st.integers(0, 4000))
def test_a_cached_prefix_is_cheaper_than_a_computed_one(
    clock: Clock, new: int, cached: int
) -> None:
    assert clock.prefill_s(new, cached) <= clock.prefill_s(new + cached)


@pytest.mark.parametrize(
    ("path", "name"),
    [("Qwen/Qwen3-8B", "qwen3-8b"), ("/m/Kimi-K2.6", "kimi-k2"), ("whatever", "qwen3.5-4b")],
)
def test_the_model_size_is_guessed_from_the_path(path: str, name: str) -> None:
    assert guess_model(path) == name


def test_no_time_is_modelled_at_scale_zero() -> None:
    pace = Pace(0.0)

    assert pace.start(1.0) is None
    assert (pace.steps, pace.late_steps) == (0, 0)


def test_deadlines_follow_each_other_without_drift() -> None:
    pace = Pace(1.0)

    first, second = pace.start(0.5), pace.start(0.5)

    assert first is not None
    assert second is not None
    assert second - first == pytest.approx(0.5)


@given(st.integers(1, 5000), st.integers(1, 1000))
def test_chunks_cost_at_least_the_whole(new: int, chunk: int) -> None:
    whole = B200.chunked_prefill_s(new, 0, new)

    assert whole == B200.prefill_s(new, 0)
    assert B200.chunked_prefill_s(new, 0, chunk) >= whole * 0.999


def test_expert_parallelism_costs_balance_and_exchange() -> None:
    experts = MODELS["qwen3-30b-a3b"]
    sharded = Clock(B200.gpu, experts, tp=4)
    parallel = Clock(B200.gpu, experts, tp=4, ep=4)

    assert parallel.step_s(PLAIN, 64, 0) > sharded.step_s(PLAIN, 64, 0)
    assert sharded.step_s(PLAIN, 64, 0) > 1.2 * sharded.step_s(PLAIN, 1, 0)


def test_data_parallel_replicas_share_the_requests() -> None:
    assert Clock(B200.gpu, B200.model, dp=4).step_s(PLAIN, 64, 0) == B200.step_s(PLAIN, 16, 0)


def test_after_a_rest_a_step_began_when_its_work_came() -> None:
    pace = Pace(1.0)
    came = time.monotonic() - 0.1

    first = pace.start(0.5, came)
    second = pace.start(0.25, came)

    assert first == pytest.approx(came + 0.5)
    assert second == pytest.approx(came + 0.75)


def test_work_that_waited_for_long_does_not_begin_in_the_past_without_bound() -> None:
    pace = Pace(1.0)

    deadline = pace.start(0.0, 0.0)

    assert deadline is not None
    assert deadline > time.monotonic() - 2 * MAX_DEBT_S
