"""InferenceX: aggregate rows, and the golden acceptance lengths in YAML."""

from typing import Any

from specbench.interchange.reading import (
    Field,
    at,
    figures_of,
    latency_fields,
    levels_of,
    mapping,
    number,
)
from specbench.interchange.rows import Figure, ImportedRow

STATISTICS = {"mean": "mean", "median": "p50", "p90": "p90", "p99": "p99"}
LATENCIES = {
    "ttft": ("ttft_ms", "ttft/first-choices"),
    "tpot": ("tpot_ms", "tpot/minus-one-or-zero"),
    "itl": ("chunk_gap_ms", "chunk-gap/raw"),
    "e2el": ("e2e_ms", "e2e/last-content"),
}
FIELDS = (
    Field("tput_per_gpu"),
    Field("output_tput_per_gpu", "", "tok_s/per-gpu"),
    Field("input_tput_per_gpu"),
    Field("median_intvty", "tok_s_user", "tok_s_user/inverse-tpot"),
    Field("avg_power_w", "gpu_power_w"),
    Field("joules_per_output_token", "energy_j_per_token"),
    *latency_fields("{statistic}_{name}", LATENCIES, STATISTICS, 1000.0),
)
LEVELS = {
    "concurrency": "conc",
    "model": "model",
    "hw": "hw",
    "framework": "framework",
    "precision": "precision",
    "spec_decoding": "spec_decoding",
    "isl": "isl",
    "osl": "osl",
    "tp": "tp",
    "ep": "ep",
}
THINKING = ("thinking_on", "thinking_off")


def is_mine(document: Any) -> bool:
    """Whether a document is an aggregate row."""
    return at(document, "tput_per_gpu") is not None and "conc" in document


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Read one row (its times are seconds). Raises InputError when a field is no number."""
    return [
        ImportedRow(
            tool="inferencex",
            path=where,
            levels=levels_of(document, LEVELS),
            figures=figures_of(document, FIELDS, where),
        )
    ]


def is_golden(document: Any) -> bool:
    """Whether a document is a table of golden acceptance lengths."""
    return isinstance(document, dict) and any(
        name in one for one in document.values() if isinstance(one, dict) for name in THINKING
    )


def golden_rows(document: Any, where: str) -> list[ImportedRow]:
    """Read model → thinking → draft length → acceptance length. Raises InputError."""
    found = []
    for model, modes in document.items():
        for mode, lengths in mapping(modes, str(model), where).items():
            name = f"{model}.{mode}"
            for drafts, length in mapping(lengths, name, where).items():
                value = number(length, f"{name}.{drafts}", where)
                if value is None:
                    continue
                found.append(
                    ImportedRow(
                        tool="inferencex golden",
                        path=where,
                        levels={"model": str(model), "thinking": str(mode), "drafts": drafts},
                        figures=(
                            Figure(
                                original=f"{name}.{drafts}",
                                value=value,
                                column="accept_len",
                                definition="accept/golden",
                            ),
                        ),
                    )
                )
    return found
