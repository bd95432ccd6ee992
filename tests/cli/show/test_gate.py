"""What a gate says when it cannot be decided: which cells, why, and what would decide it."""

import msgspec

from specbench.analysis.comparison import Comparison
from specbench.analysis.gate import condition
from specbench.analysis.regression import regressed, undecided
from specbench.cli.show.compare import gate_lines
from specbench.report.comparison.answer import in_reading_order
from specbench.workflows.compare import Compared
from tests.cli.show.comparisons import cell, comparison

ASKED = "speedup < 0.97"
OPEN = cell(0.9, {"concurrency": 1}, verdict="inconclusive", width=0.1)
FINE = cell(1.5, {"concurrency": 4}, verdict="faster", width=0.1)
SATURATED = cell(1.5, {"concurrency": 8}, doubts=("client_saturated: the client was the limit",))


def lines(found: Comparison, asked: str = ASKED) -> list[str]:
    told = condition(asked)
    return list(
        gate_lines(
            Compared(
                recording="r", baseline=None, comparison=found, fail_if=asked,
                failed=regressed(found, told), exit_status=5,
                undecided=undecided(in_reading_order(found), told),
            )
        )
    )  # fmt: skip


def test_the_one_saturated_cell_is_named_with_its_reason() -> None:
    told = lines(comparison(FINE, SATURATED))

    assert told[0].endswith("cannot be decided")
    assert len(told) == 2
    assert told[1].startswith("  #2 c=8")
    assert "client_saturated: the client was the limit" in told[1]
    assert "more launches would not decide it" in told[1]


def test_an_interval_that_holds_the_threshold_says_how_many_launches_would_decide_it() -> None:
    told = lines(comparison(FINE, OPEN))

    assert "speedup [0.81, 0.99] holds 0.97; about 5 launches an arm would" in told[1]
    assert told[-1].endswith("replicates: {launches: 5}")


def test_another_threshold_needs_another_number_of_launches() -> None:
    far = undecided(comparison(OPEN), condition("speedup < 0.98"))[0].launches
    near = undecided(comparison(OPEN), condition("speedup < 0.93"))[0].launches

    assert far is not None
    assert near is not None
    assert near > far


def test_an_estimate_at_the_threshold_is_not_promised_a_decision() -> None:
    (found,) = undecided(comparison(OPEN), condition("speedup < 0.895"))

    assert found.launches is None


def test_a_decided_gate_names_no_cell() -> None:
    assert lines(comparison(FINE)) == [f"--fail-if {ASKED!r}: not met"]


def test_numbers_are_those_of_the_table_and_survive_json() -> None:
    found = undecided(in_reading_order(comparison(FINE, OPEN)), condition(ASKED))

    (again,) = msgspec.json.decode(msgspec.json.encode(found))

    assert again["number"] == 1
    assert "holds 0.97" in again["reason"]
