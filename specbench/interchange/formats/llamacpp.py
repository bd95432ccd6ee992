"""llama.cpp speed-bench: one JSON document a run, its results a sample."""

from typing import Any

from specbench.interchange.reading import at, levels_of, listing, number
from specbench.interchange.rows import Figure, ImportedRow

LEVELS = {"model": "model", "concurrency": "concurrency", "osl": "max_tokens", "dataset": "split"}
COUNTS = ("draft_n", "draft_n_accepted", "prompt_tokens", "completion_tokens")


def is_mine(document: Any) -> bool:
    """Whether a document is speed-bench's."""
    return isinstance(at(document, "results"), list) and "completed_samples" in document


def rows(document: Any, where: str) -> list[ImportedRow]:
    """Pool the counts of the samples that ended well. Raises InputError: no number, no list."""
    samples = [one for one in listing(document["results"], "results", where) if at(one, "ok")]
    sums = {name: _sum(samples, name, where) for name in COUNTS}
    figures = []
    if sums["draft_n"]:
        rate = (sums["draft_n_accepted"] or 0.0) / sums["draft_n"]
        figures.append(Figure(original="draft_n_accepted/draft_n", value=rate,
                              definition="accept/rate"))  # fmt: skip
    for name, column in (
        ("prompt_tokens", "prompt_tokens"),
        ("completion_tokens", "output_tokens"),
    ):
        value = sums[name]
        if value is not None:
            figures.append(Figure(original=name, value=value, column=column, definition="count"))
    failed = number(document.get("failed_samples"), "failed_samples", where)
    if failed is not None:
        figures.append(
            Figure(original="failed_samples", value=failed, column="n_failed", definition="count")
        )
    return [
        ImportedRow(
            tool="llama.cpp speed-bench",
            path=where,
            levels=levels_of(document.get("config"), LEVELS),
            figures=tuple(figures),
        )
    ]


def _sum(samples: list[Any], name: str, where: str) -> float | None:
    """Add what the samples say; None where none says it."""
    values = [number(at(one, name), name, where) for one in samples]
    given = [value for value in values if value is not None]
    return sum(given) if given else None
