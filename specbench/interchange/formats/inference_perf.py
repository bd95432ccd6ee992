"""inference-perf: `summary_lifecycle_metrics.json` and those of its stages, in seconds."""

from typing import Any

from specbench.interchange.reading import Field, at, figures_of, latency_fields, levels_of
from specbench.interchange.rows import ImportedRow

STATISTICS = {"mean": "mean", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
LATENCIES = {
    "time_to_first_token": ("ttft_ms", "ttft/several-stamps"),
    "time_per_output_token": ("tpot_ms", "tpot/minus-one"),
    "inter_token_latency": ("", "itl/shared-stamps"),
    "request_latency": ("e2e_ms", "e2e/stream-end"),
}
FIELDS = (
    Field("successes.throughput.output_tokens_per_sec", "tok_s", "tok_s/sum-over-wall"),
    Field("successes.throughput.requests_per_sec"),
    Field("successes.throughput.total_tokens_per_sec"),
    Field("load_summary.count", "n_requests", "count"),
    Field("failures.count", "n_failed", "count"),
    Field("benchmark_time_seconds"),
    *latency_fields("successes.latency.{name}.{statistic}", LATENCIES, STATISTICS, 1000.0),
)
LEVELS = {"concurrency": "load_summary.concurrency", "rate": "load_summary.requested_rate"}


def is_mine(document: Any) -> bool:
    """Whether a document is inference-perf's."""
    return isinstance(at(document, "load_summary"), dict) and "successes" in document


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read one summary. Raises InputError when a field is no number."""
    return [
        ImportedRow(
            tool="inference-perf",
            path=where,
            levels=levels_of(document, LEVELS),
            figures=figures_of(document, FIELDS, where),
        )
    ]
