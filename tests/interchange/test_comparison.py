"""Imported rows are compared where their definitions allow it, and refused where they do not."""

import pytest

from specbench.errors import ConfoundError, InputError
from specbench.interchange.comparison import compare_rows
from specbench.interchange.rows import Figure, ImportedRow, Level

AIPERF_TPOT = "tpot/after-first-chunk"


def row(algorithm: str, value: float, definition: str, **levels: Level) -> ImportedRow:
    figure = Figure(
        original=f"name of {definition}", value=value, column="tpot_ms_p50", definition=definition
    )
    return ImportedRow(
        tool=f"tool of {definition}",
        path=f"{algorithm}.json",
        levels={"algorithm": algorithm, "concurrency": 8, **levels},
        figures=(figure,),
    )


def test_the_ratio_is_of_rows_with_equal_settings() -> None:
    rows = [row("ar", 10.0, AIPERF_TPOT), row("eagle", 5.0, AIPERF_TPOT)]

    compared = compare_rows(rows, rows, "ar", "eagle", "tpot_ms_p50")

    assert [one.ratio for one in compared.matched] == [pytest.approx(0.5)]
    assert compared.matched[0].settings == {"concurrency": 8}


def test_a_single_row_on_a_side_has_no_interval() -> None:
    rows = [row("ar", 10.0, AIPERF_TPOT), row("eagle", 5.0, AIPERF_TPOT)]

    compared = compare_rows(rows, rows, "ar", "eagle", "tpot_ms_p50")

    assert (compared.matched[0].low, compared.matched[0].high) == (None, None)


def test_repeated_rows_give_an_interval_that_holds_the_ratio() -> None:
    rows = [row("ar", value, AIPERF_TPOT, run=i) for i, value in enumerate((9.8, 10.0, 10.2))]
    rows += [row("eagle", value, AIPERF_TPOT, run=i) for i, value in enumerate((4.9, 5.0, 5.1))]

    found = compare_rows(rows, rows, "ar", "eagle", "tpot_ms_p50").matched[0]

    assert found.rows == (3, 3)
    assert found.low is not None
    assert found.high is not None
    assert 0.4 < found.low < found.ratio < found.high < 0.6


def test_two_definitions_are_refused_with_the_side_that_is_not_ours() -> None:
    ours, theirs = row("ar", 10.0, "specbench"), row("eagle", 5.0, "tpot/minus-one")

    with pytest.raises(InputError, match="`name of tpot/minus-one` is `tpot/minus-one`") as told:
        compare_rows([ours], [theirs], "ar", "eagle", "tpot_ms_p50")

    assert "`name of specbench`" not in told.value.what


def test_a_definition_that_is_ours_may_stand_beside_our_figure_with_its_proviso() -> None:
    compared = compare_rows(
        [row("ar", 10.0, "specbench")],
        [row("eagle", 5.0, AIPERF_TPOT)],
        "ar",
        "eagle",
        "tpot_ms_p50",
    )

    assert [line.startswith(AIPERF_TPOT) for line in compared.provisos] == [True]


def test_what_is_unknown_is_compared_only_with_the_same_figure_of_the_same_name() -> None:
    unknown = row("ar", 10.0, "unknown")
    figure = Figure(original="other", value=5.0, column="tpot_ms_p50")
    other = ImportedRow(
        tool="x", path="x.json", levels={"algorithm": "eagle"}, figures=(figure,)
    )  # fmt: skip

    same = compare_rows([unknown], [row("eagle", 5.0, "unknown")], "ar", "eagle", "tpot_ms_p50")

    assert len(same.matched) == 1
    with pytest.raises(InputError, match="not the same quantity"):
        compare_rows([unknown], [other], "ar", "eagle", "tpot_ms_p50")


def test_a_setting_that_one_side_alone_tells_is_said_not_to_be_checked() -> None:
    rows = [row("ar", 10.0, "unknown"), row("eagle", 5.0, "unknown", budget=4)]

    compared = compare_rows(rows, rows, "ar", "eagle", "tpot_ms_p50")

    assert compared.provisos == ("not checked, for one side alone tells it: budget",)


def test_rows_of_unequal_load_are_not_matched() -> None:
    rows = [row("ar", 10.0, AIPERF_TPOT), row("eagle", 5.0, AIPERF_TPOT, concurrency=64)]

    with pytest.raises(ConfoundError) as told:
        compare_rows(rows, rows, "ar", "eagle", "tpot_ms_p50")

    assert told.value.columns == {"concurrency": ("8", "64")}


@pytest.mark.parametrize(
    ("arm", "metric"), [("dflash", "tpot_ms_p50"), ("ar", "tok_s"), ("nothing == 1", "tpot_ms_p50")]
)
def test_an_arm_or_figure_that_is_not_there_is_named(arm: str, metric: str) -> None:
    rows = [row("ar", 10.0, AIPERF_TPOT)]

    with pytest.raises(InputError):
        compare_rows(rows, rows, "ar", arm, metric)
