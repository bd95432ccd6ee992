"""llm-d Benchmark Report 0.2: statistics with units, of any load generator."""

from typing import Any

from specbench.errors import InputError
from specbench.interchange.reading import Field, at, figures_of, latency_fields, levels_of, too_new
from specbench.interchange.rows import ImportedRow

AGGREGATE = "results.request_performance.aggregate"
STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
LATENCIES = {
    "time_to_first_token": "ttft_ms",
    "time_per_output_token": "tpot_ms",
    "request_latency": "e2e_ms",
}
SECONDS = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "s/token": 1000.0, "ms/token": 1.0,
           "us/token": 1e-3}  # fmt: skip
OWN = "specbench"
LEVELS = {
    "concurrency": "scenario.load.standardized.concurrency",
    "rate": "scenario.load.standardized.rate_qps",
    "generator": "scenario.load.standardized.tool",
}


def is_mine(document: Any) -> bool:
    """Whether a document is a Benchmark Report."""
    return at(document, AGGREGATE) is not None and "version" in document


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read one report. Raises InputError: another version, an unknown unit, no number."""
    version = str(document["version"])
    if version != "0.2" and not version.startswith("0.2."):
        raise too_new("the Benchmark Report's version", version, "0.2.x", where)
    definition = OWN if _generator(document) == OWN else "unknown"
    fields = [
        Field(f"{AGGREGATE}.throughput.output_token_rate.mean", "tok_s", definition),
        Field(f"{AGGREGATE}.requests.total", "n_requests", "count"),
        Field(f"{AGGREGATE}.requests.failures", "n_failed", "count"),
    ]
    for name, column in LATENCIES.items():
        scale = _scale(document, f"{AGGREGATE}.latency.{name}", where)
        one = f"{AGGREGATE}.latency.{{name}}.{{statistic}}"
        fields += latency_fields(one, {name: (column, definition)}, STATISTICS, scale)
    return [
        ImportedRow(
            tool="llm-d benchmark report",
            version=version,
            path=where,
            levels=levels_of(document, LEVELS) | _stack(document),
            figures=figures_of(document, fields, where),
        )
    ]


def _generator(document: Any) -> Any:
    return at(document, "scenario.load.standardized.tool")


def _stack(document: Any) -> dict[str, Any]:
    stack = at(document, "scenario.stack")
    first = stack[0] if isinstance(stack, list) and stack else None
    return levels_of(
        first, {"model": "standardized.model.name", "algorithm": "native.args.algorithm"}
    )


def _scale(document: Any, name: str, where: str) -> float:
    units = at(document, f"{name}.units")
    if units is None:
        return 1.0
    if str(units) not in SECONDS:
        raise InputError(f"unknown unit {units!r} of `{name}`", where=where)
    return SECONDS[str(units)]
