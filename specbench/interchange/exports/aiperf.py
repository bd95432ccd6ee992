"""A summary of one trial under AIPerf's names."""

from typing import Any

from specbench.interchange.exports.trials import ExportedTrial

LATENCIES = {
    "time_to_first_token": "ttft_ms",
    "inter_token_latency": "tpot_ms",
    "request_latency": "e2e_ms",
}
SINGLE = {
    "output_token_throughput": ("tok_s", "tokens/sec"),
    "effective_concurrency": ("concurrency_effective", "requests"),
    "error_request_count": ("n_failed", "requests"),
    "request_count": ("n_requests", "requests"),
    "total_isl": ("prompt_tokens", "tokens"),
    "total_output_tokens": ("output_tokens", "tokens"),
    "total_spec_decode_steps": ("verify_steps", "steps"),
    "spec_decode_token_weighted_acceptance_length": ("accept_len", "tokens/step"),
    "spec_decode_acceptance_length": ("accept_len_request_mean", "tokens/step"),
}


def summary(trial: ExportedTrial) -> dict[str, Any]:
    """Give the summary; a figure without a value is left out, and so are means of latencies."""
    return {
        "schema_version": "1.4",
        "producer": f"specbench {trial.version}",
        "definitions": "specbench",
        "run_info": {
            "run_label": f"{trial.recording} {trial.trial_id}",
            "variation_values": trial.levels,
        },
        **{name: found for name, c in LATENCIES.items() if (found := _percentiles(trial, c))},
        **{
            name: {"unit": unit, "avg": trial.row[column]}
            for name, (column, unit) in SINGLE.items()
            if column in trial.row
        },
        **_user(trial),
    }


def _percentiles(trial: ExportedTrial, column: str) -> dict[str, Any]:
    found = trial.percentiles(column)
    return {"unit": "ms", **found} if found else {}


def _user(trial: ExportedTrial) -> dict[str, Any]:
    value = trial.row.get("tok_s_user")
    if value is None:
        return {}
    return {"output_token_throughput_per_user": {"unit": "tokens/sec/user", "p50": value}}
