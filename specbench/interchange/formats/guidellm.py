"""guidellm's `benchmarks.json`: a document with one entry a load level."""

from typing import Any

from specbench.interchange.reading import (
    Field,
    at,
    figures_of,
    latency_fields,
    levels_of,
    listing,
    mapping,
    too_new,
)
from specbench.interchange.rows import ImportedRow

STATISTICS = {"mean": "mean", "median": "p50", "percentiles.p90": "p90", "percentiles.p95": "p95",
              "percentiles.p99": "p99"}  # fmt: skip
LATENCIES = {
    "time_to_first_token_ms": ("ttft_ms", "ttft/first-content"),
    "inter_token_latency_ms": ("tpot_ms", "tpot/minus-one"),
    "time_per_output_token_ms": ("", "tpot/with-ttft"),
}
IN_SECONDS = {"request_latency": ("e2e_ms", "e2e/stream-end")}
STATISTIC = "metrics.{name}.successful.{statistic}"
FIELDS = (
    Field("metrics.output_tokens_per_second.total.mean", "tok_s", "tok_s/time-weighted"),
    Field(
        "metrics.request_concurrency.successful.mean", "concurrency_effective", "concurrency/mean"
    ),
    Field("metrics.request_totals.errored", "n_failed", "count"),
    Field("metrics.request_totals.total", "n_requests", "count"),
    Field("metrics.output_tokens_per_iteration.successful.mean", "tokens_per_chunk"),
    Field("metrics.requests_per_second.successful.mean"),
    Field("duration"),
    *latency_fields(STATISTIC, LATENCIES, STATISTICS),
    *latency_fields(STATISTIC, IN_SECONDS, STATISTICS, 1000.0),
)
LEVELS = {
    "model": "config.backend.model",
    "concurrency": "config.strategy.streams",
    "rate": "config.strategy.rate",
    "strategy": "config.strategy.type_",
}
NEWEST = 2


def is_mine(document: Any) -> bool:
    """Whether a document is guidellm's."""
    return at(document, "metadata.guidellm_version") is not None and "benchmarks" in document


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read every load level. Raises InputError: a newer version, or a field that is no number."""
    version = at(document, "metadata.version")
    if isinstance(version, int) and version > NEWEST:
        raise too_new("guidellm's metadata.version", version, f"up to {NEWEST}", where)
    levels = listing(document["benchmarks"], "benchmarks", where)
    return [
        ImportedRow(
            tool="guidellm",
            version=str(at(document, "metadata.guidellm_version")),
            path=f"{where}#{index}",
            levels=levels_of(mapping(level, "benchmarks", where), LEVELS),
            figures=figures_of(level, FIELDS, where),
        )
        for index, level in enumerate(levels)
    ]
