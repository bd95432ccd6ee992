"""One line a trial: JSON lines of our own columns, and SGLang's `bench_serving` names."""

import json
from collections.abc import Iterator
from typing import Any

from specbench.interchange.exports.trials import ExportedTrial

SGLANG = {
    "output_throughput": "tok_s",
    "total_input_tokens": "prompt_tokens",
    "total_output_tokens": "output_tokens",
    "concurrency": "concurrency_effective",
    "accept_length": "accept_len",
    "median_ttft_ms": "ttft_ms_p50",
    "p90_ttft_ms": "ttft_ms_p90",
    "p95_ttft_ms": "ttft_ms_p95",
    "p99_ttft_ms": "ttft_ms_p99",
    "median_tpot_ms": "tpot_ms_p50",
    "p90_tpot_ms": "tpot_ms_p90",
    "p95_tpot_ms": "tpot_ms_p95",
    "p99_tpot_ms": "tpot_ms_p99",
    "median_itl_ms": "chunk_gap_ms_p50",
    "median_e2e_latency_ms": "e2e_ms_p50",
    "p90_e2e_latency_ms": "e2e_ms_p90",
    "p95_e2e_latency_ms": "e2e_ms_p95",
    "p99_e2e_latency_ms": "e2e_ms_p99",
}
"""SGLang's name → our column. Means are left out: a trial keeps percentiles."""


def jsonl(trials: list[ExportedTrial]) -> Iterator[str]:
    """Give our own columns; a blank is null nowhere, it is not there."""
    for trial in trials:
        yield json.dumps({**trial.levels, **trial.row}, ensure_ascii=False)


def sglang(trials: list[ExportedTrial]) -> Iterator[str]:
    """Give lines in SGLang's names, with our definitions: `definitions` says so in each."""
    for trial in trials:
        yield json.dumps(_sglang(trial), ensure_ascii=False)


def _sglang(trial: ExportedTrial) -> dict[str, Any]:
    named = {name: trial.row[column] for name, column in SGLANG.items() if column in trial.row}
    asked = {"max_concurrency": "concurrency", "request_rate": "rate"}
    return {
        "tag": f"specbench {trial.recording} {trial.trial_id}",
        "producer": f"specbench {trial.version}",
        "definitions": "specbench",
        **{name: trial.levels[factor] for name, factor in asked.items() if factor in trial.levels},
        "completed": trial.row["n_requests"] - trial.row["n_failed"],
        **named,
        "factors": trial.levels,
    }
