"""genai-bench: one JSON document a scenario and concurrency."""

from typing import Any

from specbench.interchange.reading import Field, at, figures_of, latency_fields, levels_of
from specbench.interchange.rows import ImportedRow

STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
LATENCIES = {
    "ttft": ("ttft_ms", "ttft/first-content"),
    "tpot": ("tpot_ms", "tpot/minus-one"),
    "e2e_latency": ("e2e_ms", "e2e/stream-end"),
}
FIELDS = (
    Field("mean_output_throughput_tokens_per_s", "tok_s", "tok_s/aggregated"),
    Field("num_requests", "n_requests", "count"),
    Field("num_error_requests", "n_failed", "count"),
    Field("error_rate"),
    Field("requests_per_second"),
    Field("run_duration"),
    *latency_fields("stats.{name}.{statistic}", LATENCIES, STATISTICS, 1000.0),
)
LEVELS = {"concurrency": "num_concurrency", "scenario": "scenario"}


def is_mine(document: Any) -> bool:
    """Whether a document is genai-bench's."""
    return isinstance(at(document, "aggregated_metrics"), dict)


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read one result (its times are seconds). Raises InputError when a field is no number."""
    metrics = document["aggregated_metrics"]
    return [
        ImportedRow(
            tool="genai-bench",
            path=where,
            levels=levels_of(metrics, LEVELS),
            figures=figures_of(metrics, FIELDS, where),
        )
    ]
