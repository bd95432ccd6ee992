"""`vllm bench serve --save-result`: one JSON document a run; sweeps are folders of them."""

from typing import Any

from specbench.interchange.reading import Field, at, figures_of, latency_fields, levels_of
from specbench.interchange.rows import ImportedRow

STATISTICS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95",
              "p99": "p99"}  # fmt: skip
LATENCIES = {
    "ttft": ("ttft_ms", "ttft/first-choices"),
    "tpot": ("tpot_ms", "tpot/minus-one-or-zero"),
    "itl": ("chunk_gap_ms", "chunk-gap/raw"),
    "e2el": ("e2e_ms", "e2e/last-content"),
}
FIELDS = (
    Field("output_throughput", "tok_s", "tok_s/sum-over-wall"),
    Field("spec_decode_acceptance_length", "accept_len", "accept/pooled"),
    Field("spec_decode_num_drafts", "verify_steps", "count"),
    Field("spec_decode_acceptance_rate", "", "accept/rate", 0.01),
    Field("spec_decode_draft_tokens", "", "count"),
    Field("spec_decode_accepted_tokens", "", "count"),
    Field("failed", "n_failed", "count"),
    Field("num_prompts", "n_requests", "count"),
    Field("total_input_tokens", "prompt_tokens", "count"),
    Field("total_output_tokens", "output_tokens", "count"),
    Field("request_goodput", "goodput_rps"),
    Field("completed"),
    Field("duration"),
    Field("request_throughput"),
    Field("total_token_throughput"),
    Field("max_output_tokens_per_s", "", "peak/chunks"),
    Field("max_concurrent_requests"),
    *latency_fields("{statistic}_{name}_ms", LATENCIES, STATISTICS),
)
LEVELS = {
    "model": "model_id",
    "concurrency": "max_concurrency",
    "rate": "request_rate",
    "label": "label",
    "run": "run_number",
}


def is_mine(document: Any) -> bool:
    """Whether a document is a result of `vllm bench serve`."""
    return at(document, "total_token_throughput") is not None and "num_prompts" in document


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read one result. Raises InputError when a field is no number."""
    return [
        ImportedRow(
            tool="vllm bench serve",
            path=where,
            levels=levels_of(document, LEVELS),
            figures=figures_of(document, FIELDS, where),
        )
    ]
