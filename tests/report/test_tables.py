"""One row a cell: pooled, matched, and empty where nothing was measured."""

import pytest

from specbench.report.cells import summary_rows
from tests.report.synthetic import grid, table, trial


def test_one_row_a_cell_with_its_replicates_counted() -> None:
    rows = summary_rows(table(grid(launches=2, replicates=3)))

    assert len(rows) == 3 * 2 * 3
    assert {(row["trials"], row["launches"]) for row in rows} == {(6, 2)}


def test_speedup_is_against_the_control_of_equal_temperature_and_concurrency() -> None:
    fast = trial(algorithm="dflash", concurrency=8, tok_s=300.0)
    rows = [
        trial(concurrency=8, tok_s=100.0),
        trial(concurrency=64, tok_s=999.0),
        trial(concurrency=8, temperature=1.0, tok_s=999.0),
        fast,
    ]

    summary = {row["cell_id"]: row for row in summary_rows(table(rows))}

    assert summary[fast["cell_id"]]["speedup"] == pytest.approx(3.0)


def test_there_is_no_speedup_without_a_matched_control() -> None:
    rows = [trial(concurrency=1), trial(algorithm="dflash", concurrency=8)]

    assert summary_rows(table(rows))[1]["speedup"] is None


def test_accept_len_is_pooled_over_steps_not_averaged_over_trials() -> None:
    rows = [
        trial(algorithm="dflash", replicate=0, accept_len=2.0, verify_steps=300),
        trial(algorithm="dflash", replicate=1, accept_len=4.0, verify_steps=100),
    ]

    assert summary_rows(table(rows))[0]["accept_len"] == pytest.approx(2.5)


def test_failed_trials_are_counted_and_never_averaged() -> None:
    rows = [
        trial(replicate=0, tok_s=100.0),
        trial(replicate=1, tok_s=5.0, status="failed", reason="server died"),
    ]

    row = summary_rows(table(rows))[0]

    assert (row["tok_s"], row["trials"], row["failed"]) == (100.0, 1, 1)


def test_a_cell_that_was_never_measured_is_empty_not_zero() -> None:
    row = summary_rows(table([trial(status="failed", tok_s=None, accept_len=None)]))[0]

    assert row["tok_s"] is None
    assert row["accept_len"] is None


def test_flags_of_all_trials_of_a_cell_are_shown_once() -> None:
    rows = [trial(replicate=0, flags="a,b"), trial(replicate=1, flags="b,c")]

    assert summary_rows(table(rows))[0]["flags"] == ["a", "b", "c"]


def test_an_empty_table_has_no_rows() -> None:
    assert summary_rows(table([])) == []
