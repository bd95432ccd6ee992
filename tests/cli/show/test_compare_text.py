"""What `compare` prints on terminals of several widths."""

from pathlib import Path

import pytest

from specbench.analysis.comparison import Comparison
from specbench.cli.show.compare import cells_of
from specbench.cli.show.compare_text import Screen, text_of
from specbench.errors import InputError
from specbench.report.comparison.answer import answer_of, in_reading_order
from tests.cli.show.comparisons import cell, comparison, quickstart

GOLDEN = Path(__file__).parent / "golden"


def shown(found: Comparison, columns: int = 100, *, unicode: bool = True) -> list[str]:
    return list(text_of(answer_of(found), Screen(columns=columns, unicode=unicode)))


@pytest.mark.parametrize("columns", [100, 80, 48])
def test_the_text_is_the_one_on_file(columns: int) -> None:
    text = "\n".join(shown(quickstart(), columns)) + "\n"

    assert text == (GOLDEN / f"compare-{columns}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [40, 48, 60, 80, 100, 140])
def test_no_line_is_wider_than_the_screen(columns: int) -> None:
    lines = shown(quickstart(), columns)

    assert max(map(len, lines)) <= columns


def test_a_comparison_of_the_quickstart_fits_a_screen_of_40_lines_at_100_columns() -> None:
    lines = shown(quickstart(), 100)

    assert len(lines) <= 40
    (heads,) = [line for line in lines if "verdict" in line]
    assert heads.split()[:4] == ["#", "T", "c", "budget"]
    assert heads.split()[-4:] == ["verdict", "accept", "step", "n"]


def test_the_first_line_is_one_sentence_with_the_pooled_ratio_and_its_interval() -> None:
    answer = answer_of(comparison(cell(0.9, {"concurrency": 8})))

    assert answer.sentence == (
        "ddtree is slower than dflash: 0.900 times its tok_s, 95 % [0.855, 0.945],"
        " in the one matched cell."
    )


def test_there_are_five_notes_at_most() -> None:
    assert len(answer_of(quickstart()).notes) <= 5


def test_a_screen_without_unicode_is_given_ascii() -> None:
    lines = shown(quickstart(), 100, unicode=False)

    assert all(line.isascii() for line in lines)
    assert any("o" in line and "|" in line for line in lines[4:])


def test_a_star_marks_a_withheld_verdict_and_the_notes_say_why() -> None:
    held = cell(0.9, {"concurrency": 8}, verdict="inconclusive", doubts=("order: later",))

    lines = shown(comparison(held, cell(0.9, {"concurrency": 1})))

    assert any("inconclusive*" in line for line in lines)
    assert "doubt: * withheld for order (#2 of 2)" in lines


def test_a_row_that_lacks_an_interval_says_so() -> None:
    wide = cell(0.9, {"concurrency": 8}, width=float("inf"))

    lines = shown(comparison(wide))

    assert any("no interval" in line for line in lines)


@pytest.mark.parametrize("asked", ["2", "#2", "concurrency == 8"])
def test_a_cell_is_asked_for_by_its_row_or_by_its_levels(asked: str) -> None:
    found = comparison(cell(0.9, {"concurrency": 8}), cell(0.9, {"concurrency": 1}))

    cells = cells_of(found, asked)

    assert [one.levels["concurrency"] for _, one in cells] == [8]


def test_rows_are_numbered_as_they_are_shown() -> None:
    found = comparison(cell(0.9, {"concurrency": 8}), cell(0.9, {"concurrency": 1}))

    ordered = in_reading_order(found)

    assert [one.levels["concurrency"] for one in ordered.cells] == [1, 8]


def test_a_cell_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(InputError, match="no cell '9'") as refused:
        cells_of(comparison(cell(0.9, {"concurrency": 8})), "9")

    assert "1 to 1" in str(refused.value.hint)
