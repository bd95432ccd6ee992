"""AIPerf: the summary `profile_export_aiperf.json`, and its records a request."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from specbench.interchange.reading import (
    Field,
    as_ours,
    at,
    figures_of,
    latency_fields,
    levels_of,
    number,
    too_new,
    written_by_us,
)
from specbench.interchange.rows import Figure, ImportedRow
from specbench.model.columns import PERCENTS

STATISTICS = {"avg": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
LATENCIES = {
    "time_to_first_token": ("ttft_ms", "ttft/first-content"),
    "inter_token_latency": ("tpot_ms", "tpot/after-first-chunk"),
    "inter_chunk_latency": ("chunk_gap_ms", "chunk-gap/raw"),
    "request_latency": ("e2e_ms", "e2e/last-content"),
}
FIELDS = (
    Field("output_token_throughput.avg", "tok_s", "tok_s/sum-over-wall"),
    Field("output_token_throughput_per_user.p50", "tok_s_user", "tok_s_user/inverse-itl"),
    Field("spec_decode_token_weighted_acceptance_length.avg", "accept_len", "accept/pooled"),
    Field(
        "spec_decode_acceptance_length.avg", "accept_len_request_mean", "accept/request-mean"
    ),
    Field("total_spec_decode_steps.avg", "verify_steps", "count"),
    Field("spec_decode_overall_draft_acceptance_rate.avg", "", "accept/rate", 0.01),
    Field("effective_concurrency.avg", "concurrency_effective", "concurrency/mean"),
    Field("error_request_count.avg", "n_failed", "count"),
    Field("total_isl.avg", "prompt_tokens", "count"),
    Field("total_output_tokens.avg", "output_tokens", "count"),
    Field("goodput.avg", "goodput_rps"),
    Field("request_count.avg"),
    Field("request_throughput.avg"),
    Field("benchmark_duration.avg"),
    *latency_fields("{name}.{statistic}", LATENCIES, STATISTICS),
)  # fmt: skip
LEVELS = {
    "label": "run_info.run_label",
    "variation": "run_info.variation_label",
    "concurrency": "run_info.variation_values.concurrency",
    "model": "input_config.endpoint.model_names",
}
UNITS = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "ns": 1e-6, "us": 1e-3}


def is_mine(document: Any) -> bool:
    """Whether a document is a summary."""
    ours = written_by_us(document) and "schema_version" in document
    return isinstance(document, dict) and (ours or "aiperf_version" in document)


def is_record(document: Any) -> bool:
    """Whether a document is the record of a request."""
    known = isinstance(at(document, "metadata"), dict) and isinstance(at(document, "metrics"), dict)
    return known and "benchmark_phase" in document["metadata"]


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read a summary. Raises InputError when a newer AIPerf wrote it, or a field is no number."""
    schema = str(document.get("schema_version", "1"))
    if schema.split(".", maxsplit=1)[0] != "1":
        raise too_new("AIPerf's schema_version", schema, "1.x", where)
    fields = [
        field._replace(scale=field.scale * UNITS.get(str(at(document, _unit(field))), 1.0))
        if field.column.rsplit("_", 1)[0] in ("ttft_ms", "tpot_ms", "chunk_gap_ms", "e2e_ms")
        else field
        for field in FIELDS
    ]
    row = ImportedRow(
        tool="aiperf",
        version=str(document.get("aiperf_version", "")),
        path=where,
        levels=levels_of(document, LEVELS),
        figures=figures_of(document, fields, where),
    )
    if written_by_us(document):
        return [
            as_ours(row, document, "run_info.variation_values", {"request_count.avg": "n_requests"})
        ]
    return [row]


def _unit(field: Field) -> str:
    return f"{field.original.rsplit('.', 1)[0]}.unit"


def rows_of_records(documents: Iterable[Any], where: str) -> list[ImportedRow]:
    """Summarise the records of requests of one file: medians, and acceptance from the counts.

    Raises InputError when a field is no number.
    """
    records = [one for one in documents if one["metadata"].get("benchmark_phase") == "profiling"]
    figures = []
    for name, (column, definition) in LATENCIES.items():
        if name == "inter_chunk_latency":
            continue
        values = _values(records, name, where)
        figures += [
            Figure(
                original=f"metrics.{name}",
                value=float(np.percentile(values, percent)),
                column=f"{column}_p{percent}",
                definition=definition,
            )
            for percent in PERCENTS
            if values
        ]
    figures += _acceptance(records, where)
    failed = sum(record.get("error") is not None for record in records)
    figures.append(
        Figure(original="error", value=failed, column="n_failed", definition="count")
    )  # fmt: skip
    return [ImportedRow(tool="aiperf records", path=where, figures=tuple(figures))]


def _values(records: list[Any], name: str, where: str) -> list[float]:
    found = []
    for record in records:
        value = number(at(record, f"metrics.{name}.value"), name, where)
        if value is not None:
            found.append(value * UNITS.get(str(at(record, f"metrics.{name}.unit")), 1.0))
    return found


def _acceptance(records: list[Any], where: str) -> list[Figure]:
    total = {"num_spec_steps": 0.0, "num_accepted_draft_tokens": 0.0}
    for record in records:
        for name in total:
            given = number(at(record, f"spec_decode_acceptance.{name}"), name, where)
            total[name] += given or 0.0
    steps = total["num_spec_steps"]
    if not steps:
        return []
    return [
        Figure(
            original="spec_decode_acceptance",
            value=1 + total["num_accepted_draft_tokens"] / steps,
            column="accept_len",
            definition="accept/pooled",
        ),
        Figure(original="spec_decode_acceptance.num_spec_steps", value=steps,
               column="verify_steps", definition="count"),
    ]  # fmt: skip
