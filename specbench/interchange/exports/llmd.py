"""An llm-d Benchmark Report 0.2.1 of one trial, with speculation in an extension of our own."""

from typing import Any

from specbench.interchange.exports.trials import ExportedTrial
from specbench.model.columns import COLUMNS

LATENCIES = {
    "time_to_first_token": ("ttft_ms", "ms"),
    "time_per_output_token": ("tpot_ms", "ms/token"),
    "request_latency": ("e2e_ms", "ms"),
}
SPECULATION = (
    *(column.name for column in COLUMNS if "steps" in column.rests_on),
    "accept_len_server",
    "lossless",
)


def report(trial: ExportedTrial) -> dict[str, Any]:
    """Give the report. Acceptance stands under `x_specbench`: 0.2 has no field for it."""
    asked = {"concurrency": "concurrency", "rate_qps": "rate"}
    load = {name: trial.levels[factor] for name, factor in asked.items() if factor in trial.levels}
    tool = {"tool": "specbench", "tool_version": trial.version}
    return {
        "version": "0.2.1",
        "run": {
            "uid": trial.trial_id,
            "eid": trial.recording,
            "cid": trial.row["cell_id"],
            "time": {"start": trial.row["started_at"]},
        },
        "scenario": {
            "stack": [
                {
                    "metadata": {"label": trial.row["host"], "cfg_id": trial.row["block_id"]},
                    "standardized": {"kind": "inference_engine", "model": {"name": trial.model}},
                    "native": {"args": trial.levels},
                }
            ],
            "load": {"standardized": {**tool, **load}},
        },
        "results": {"request_performance": {"aggregate": _aggregate(trial)}},
        "x_specbench": {name: trial.row[name] for name in SPECULATION if name in trial.row},
    }


def _aggregate(trial: ExportedTrial) -> dict[str, Any]:
    found: dict[str, Any] = {
        "requests": {"total": trial.row["n_requests"], "failures": trial.row["n_failed"]},
        "latency": {
            name: {"units": units, **percentiles}
            for name, (column, units) in LATENCIES.items()
            if (percentiles := trial.percentiles(column))
        },
    }
    if "tok_s" in trial.row:
        rate = {"units": "tokens/s", "mean": trial.row["tok_s"]}
        found["throughput"] = {"output_token_rate": rate}
    return found
