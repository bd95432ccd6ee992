"""SGLang's `bench_serving` and `bench_one_batch_server`: one JSON line a run."""

from typing import Any

from specbench.errors import InputError
from specbench.interchange.reading import (
    Field,
    as_ours,
    at,
    figures_of,
    latency_fields,
    levels_of,
    listing,
    written_by_us,
)
from specbench.interchange.rows import ImportedRow

STATISTICS = {"mean": "mean", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
LATENCIES = {
    "ttft": ("ttft_ms", "ttft/first-content"),
    "tpot": ("tpot_ms", "tpot/minus-one-or-zero"),
    "itl": ("chunk_gap_ms", "chunk-gap/maybe-retokenised"),
    "e2e_latency": ("e2e_ms", "e2e/stream-end"),
}
FIELDS = (
    Field("output_throughput", "tok_s", "tok_s/wall-with-status"),
    Field("accept_length", "accept_len_server", "accept/lifetime"),
    Field("concurrency", "concurrency_effective", "concurrency/little"),
    Field("total_input_tokens", "prompt_tokens", "count"),
    Field("total_output_tokens", "output_tokens", "count"),
    Field("duration"),
    Field("completed"),
    Field("request_throughput"),
    Field("input_throughput"),
    Field("total_throughput"),
    Field("total_output_tokens_retokenized"),
    Field("max_output_tokens_per_s", "", "peak/chunks"),
    Field("max_concurrent_requests"),
    Field("request_goodput", "goodput_rps"),
    *latency_fields("{statistic}_{name}_ms", LATENCIES, STATISTICS),
)
BATCH = (
    Field("latency"),
    Field("input_throughput"),
    Field("output_throughput", "tok_s"),
    Field("overall_throughput"),
    Field("last_ttft"),
    Field("acc_length", "accept_len_server", "accept/lifetime"),
)
LEVELS = {
    "algorithm": "server_info.speculative_algorithm",
    "model": "server_info.model_path",
    "concurrency": "max_concurrency",
    "rate": "request_rate",
    "dataset": "dataset_name",
    "isl": "random_input_len",
    "osl": "random_output_len",
    "tag": "tag",
}
BATCH_LEVELS = {"label": "run_name", "concurrency": "batch_size", "isl": "input_len",
                "osl": "output_len"}  # fmt: skip


def is_mine(document: Any) -> bool:
    """Whether a document is a line of one of the two."""
    serving = (
        at(document, "output_throughput") is not None
        and {"mean_e2e_latency_ms", "median_e2e_latency_ms"} & document.keys()
    )
    return bool(serving) or written_by_us(document) or at(document, "run_name") is not None


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read one line. Raises InputError when a field is no number."""
    if "run_name" in document:
        return [
            ImportedRow(
                tool="sglang bench_one_batch_server",
                path=where,
                levels=levels_of(document, BATCH_LEVELS),
                figures=figures_of(document, BATCH, where),
            )
        ]
    levels = levels_of(document, LEVELS)
    if isinstance(document.get("server_info"), dict) and "algorithm" not in levels:
        levels["algorithm"] = "ar"
    counted = dict(document)
    if document.get("errors") is not None:
        failed = [one for one in listing(document["errors"], "errors", where) if one]
        counted["errors"] = len(failed)
    fields = (*FIELDS, Field("errors", "n_failed", "count"))
    row = ImportedRow(
        tool="sglang bench_serving",
        version=_version(document, where),
        path=where,
        levels=levels,
        figures=figures_of(counted, fields, where),
    )
    if written_by_us(document):
        return [as_ours(row, document, "factors", {"accept_length": "accept_len"})]
    return [row]


def _version(document: Any, where: str) -> str:
    version = at(document, "server_info.version")
    if version is not None and not isinstance(version, str):
        raise InputError("`server_info.version` is no text", where=where)
    return f"server {version}" if version else ""
