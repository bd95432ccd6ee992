"""NVIDIA specdec_bench: `acceptance_rate.json`, with `configuration.json` beside it."""

from typing import Any

from specbench.interchange.reading import Field, at, figures_of, levels_of, mapping
from specbench.interchange.rows import ImportedRow

LEVELS = {
    "model": "model_dir",
    "algorithm": "speculative_algorithm",
    "engine": "engine",
    "drafts": "draft_length",
    "concurrency": "concurrency",
    "dataset": "dataset",
}


def is_mine(document: Any) -> bool:
    """Whether a document is an acceptance file."""
    return isinstance(document, dict) and "Average_AL" in document


def rows(document: Any, where: str, configuration: Any = None) -> list[ImportedRow]:
    """Read the mean, and each category's. Raises InputError when a field is no number."""
    levels = levels_of(configuration, LEVELS)
    fields = [Field("Average_AL", "accept_len_request_mean", "accept/chunk-size")]
    found = [
        ImportedRow(
            tool="specdec_bench",
            path=where,
            levels=levels,
            figures=figures_of(document, fields, where),
        )
    ]
    categories = at(document, "Category_AL")
    if categories is None:
        return found
    for name, value in mapping(categories, "Category_AL", where).items():
        given = {f"Category_AL.{name}": value}
        field = Field(next(iter(given)), "accept_len_request_mean", "accept/chunk-size")
        figures = figures_of({"Category_AL": {name: value}}, [field], where)
        found.append(
            ImportedRow(
                tool="specdec_bench",
                path=where,
                levels=levels | {"category": name},
                figures=figures,
            )
        )
    return found
