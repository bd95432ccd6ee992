"""A comparison as CSV, Markdown, in a notebook and as a picture."""

import csv
from io import StringIO

from specbench.report import plots
from specbench.report.comparison.answer import answer_of, table_of
from specbench.report.comparison.formats import csv_of, markdown_of
from specbench.report.notebook import for_notebook
from tests.cli.show.comparisons import cell, comparison, quickstart


def test_the_csv_has_a_row_a_cell_with_numbers_in_full() -> None:
    rows = list(csv.DictReader(StringIO(csv_of(answer_of(quickstart())))))

    assert len(rows) == 24
    assert rows[0]["temperature"] == "0"
    assert float(rows[0]["ratio"]) == 0.8
    assert {row["verdict"] for row in rows} == {"slower", "inconclusive"}


def test_the_csv_leaves_empty_what_is_not_known() -> None:
    endless = comparison(cell(0.9, {"concurrency": 1}, width=float("inf")))

    (row,) = csv.DictReader(StringIO(csv_of(answer_of(endless))))

    assert row["high"] == ""


def test_the_markdown_escapes_names_and_keeps_every_row() -> None:
    text = markdown_of(answer_of(comparison(cell(0.9, {"back|end": "<b>"}))))

    assert text.startswith("**ddtree is slower than dflash")
    assert "<b>" not in text
    assert text.count("\n- ") == len(answer_of(comparison(cell(0.9, {"c": 1}))).notes)


def test_a_notebook_shows_the_table_of_all_other_places_and_a_picture() -> None:
    found = for_notebook(comparison(cell(0.9, {"concurrency": 8}), cell(0.8, {"concurrency": 1})))

    page = found._repr_html_()

    table = table_of(answer_of(found))
    assert page.count("<tr>") == 1 + len(table.rows)
    assert all(f'<th scope="col">{head}</th>' in page for head in table.heads)
    assert '<svg role="img" aria-label="ddtree is slower' in page


def test_a_notebook_escapes_what_stands_in_names() -> None:
    page = for_notebook(comparison(cell(0.9, {"x": "<script>"}), cell(0.9, {"x": "y"})))

    assert "<script>" not in page._repr_html_().replace("&lt;script&gt;", "")


def test_the_picture_names_every_cell_and_tells_decided_from_undecided() -> None:
    decided, open_ = cell(0.9, {"c": 1}), cell(0.95, {"c": 2}, verdict="inconclusive")

    axes = plots.comparison(comparison(decided, open_))

    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["c 1: slower", "c 2: inconclusive"]
    marks = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert marks[0].get_markerfacecolor() != marks[1].get_markerfacecolor()
