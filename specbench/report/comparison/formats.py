"""A comparison's table for other programs: CSV with plain numbers, and Markdown."""

import csv
import math
from io import StringIO
from typing import Any

from specbench.report.comparison.answer import Answer, Row, table_of
from specbench.report.escaping import escape

MEASURES = (
    "value_a", "value_b", "ratio", "low", "high", "verdict", "accept_len_ratio",
    "step_time_ratio", "launches_a", "launches_b", "trials_a", "trials_b", "requests_a",
    "requests_b", "prompts", "withheld",
)  # fmt: skip
"""Columns of the CSV after the arms, the metric and the factors."""


def csv_of(answer: Answer) -> str:
    """Write a row a cell; numbers in full, empty where nothing was measured."""
    factors = [*answer.fixed, *answer.varying]
    target = StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["a", "b", "metric", *factors, *MEASURES])
    for row in answer.rows:
        levels = [row.levels.get(name) for name in factors]
        writer.writerow([answer.a, answer.b, answer.metric, *levels, *_measures(row)])
    return target.getvalue()


def _measures(row: Row) -> list[Any]:
    numbers = (row.value_a, row.value_b, row.ratio, row.low, row.high)
    return [
        *(_number(value) for value in numbers),
        row.verdict,
        _number(row.accept_len),
        _number(row.step_time),
        *row.launches,
        *row.trials,
        *row.requests,
        row.prompts,
        " ".join(reason.split(":")[0] for reason in row.withheld),
    ]


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def markdown_of(answer: Answer) -> str:
    """Write the sentence, the table and the notes as Markdown."""
    table = table_of(answer)
    lines = [
        f"**{escape(answer.sentence)}**",
        "",
        "| " + " | ".join(escape(head) for head in table.heads) + " |",
        "|" + "---|" * len(table.heads),
        *("| " + " | ".join(escape(value) for value in row) + " |" for row in table.rows),
        "",
        *(f"- {escape(note)}" for note in answer.notes),
    ]
    return "\n".join(lines) + "\n"
