"""Two minutes of `make bench-stats`: bounds that a regression of the comparison's model breaks."""

import pytest

from benchmarks.laws import cases, figures
from benchmarks.laws.cases import Case

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RUNS = 60
EQUAL = [case for case in cases.ISSUE if case.design.cells == 1]
POOLED = {case.name: case for case in cases.POOLED}
POWER = {case.name: case for case in cases.POWER}


@pytest.mark.parametrize("case", EQUAL, ids=lambda case: case.name)
def test_equal_arms_are_not_told_apart(case: Case) -> None:
    """Nominal 5 %: more than 8 of 60 has a chance below one in ten thousand."""
    found = figures.equal(case, RUNS, 1)

    assert max(found["false, these"], found["false, such"]) * RUNS / 100 <= 8
    assert found["gate"] * RUNS / 100 <= 8
    assert found["agrees"] == 100.0


def test_a_true_difference_of_five_per_cent_is_found_by_three_launches_of_three_trials() -> None:
    found = figures.found_effects(POWER["5 %, 3 x 3"], RUNS, 2)

    assert found["found, these"] >= 70.0
    assert found["wrong"] == 0.0


def test_no_difference_is_not_said_of_three_per_cent() -> None:
    found = figures.found_effects(POWER["3 %, 5 x 3"], RUNS, 3)

    assert found["alike, these"] <= 2.0


def test_a_difference_in_all_cells_is_the_answer() -> None:
    found = figures.pooled(POOLED["the same, c = 1, 2, 4: 8 requests a slot"], RUNS, 4)

    assert found["right"] >= 70.0
    assert found["wrong"] == 0.0
    assert found["covers, kind"] >= 85.0
