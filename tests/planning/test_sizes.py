"""A trial asks as many requests as its load needs: of each slot eight, and not days of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench import planning
from specbench.config import choose_prompts, parse_matrix
from specbench.errors import InputError, InputErrors
from specbench.model.load import FEWEST_A_SLOT, Closed, Open, Prompt, whole_passes
from specbench.model.matrix import WorkloadOptions
from specbench.model.plan import Asked
from specbench.model.size import Size
from specbench.planning.identity import digest, named_by
from specbench.planning.requests import request_notices

MATRIX = """\
name: m
model: {path: m, served_name: m}
hosts: [local]
factors: {algorithm: [ar], %s}
workload: {%s}
"""


def asked(load: str, workload: str = "") -> list[Asked]:
    matrix = parse_matrix(MATRIX % (load, workload), "m.yaml")
    cells = planning.expand(matrix, datasets={"builtin:mixed": "x"})
    return [planning.asked(matrix, cell) for cell in cells]


def held(count: int) -> list[Prompt]:
    return [Prompt(prompt_id=str(i), text="x") for i in range(count)]


@given(st.integers(1, 4096))
def test_by_default_every_slot_has_its_eight_requests(slots: int) -> None:
    found = planning.requests_of(WorkloadOptions(), Closed(concurrency=slots))

    assert found == max(32, FEWEST_A_SLOT * slots)


def test_sizes_follow_each_cell_not_the_largest_of_them() -> None:
    assert [one.requests for one in asked("concurrency: [1, 8, 64]")] == [32, 64, 512]


@pytest.mark.parametrize(
    ("workload", "sizes"),
    [
        ("requests: 20", [20, 20]),
        ("requests: {per_slot: 3, at_least: 5, at_most: 100}", [5, 100]),
        ("seconds: 60", [None, None]),
        ("tokens: 5000", [None, None]),
        ("seconds: 60, requests: {}", [32, 512]),
    ],
)
def test_numbers_bounds_time_and_tokens_combine(workload: str, sizes: list[int | None]) -> None:
    assert [one.requests for one in asked("concurrency: [1, 64]", workload)] == sizes


def test_an_open_loop_asks_for_half_a_minute_or_for_its_slots() -> None:
    assert [one.requests for one in asked("rate: [0.1, 10]")] == [32, 300]
    assert Size().requests(Open(rate=10, max_in_flight=20)) == 160


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ("{at_least: 9, at_most: 8}", "at_most 8 is below at_least 9"),
        ("{per_slots: 9}", "per_slots"),
        ("0", "requests"),
    ],
)
def test_a_size_that_cannot_be_is_refused_in_words(requests: str, said: str) -> None:
    with pytest.raises((InputError, InputErrors), match=said):
        asked("concurrency: 1", f"requests: {requests}")


@given(st.integers(1, 2000), st.integers(1, 300))
def test_a_size_by_need_is_whole_passes_and_barely_larger_than_needed(
    requests: int, count: int
) -> None:
    chosen = choose_prompts(held(count), requests, 0, tight=True)

    assert chosen.requests == whole_passes(requests, len(chosen.prompts))
    assert chosen.requests is not None
    assert requests <= chosen.requests < requests + -(-requests // count)
    assert chosen.requests % len(chosen.prompts) == 0


def test_by_need_nothing_has_to_be_said() -> None:
    matrix = parse_matrix(MATRIX % ("concurrency: [1, 8, 64, 500]", ""), "m.yaml")
    cells = planning.expand(matrix, datasets={"builtin:mixed": "x"})

    assert list(request_notices(matrix, cells, {"builtin:mixed": 111})) == []


def test_trials_that_time_ends_are_announced() -> None:
    matrix = parse_matrix(MATRIX % ("concurrency: 1", "seconds: 60"), "m.yaml")
    cells = planning.expand(matrix, datasets={"builtin:mixed": "x"})

    (notice,) = request_notices(matrix, cells, {"builtin:mixed": 111})
    assert "end after 60 s" in notice


def test_what_was_recorded_under_the_first_default_is_still_the_same_cell() -> None:
    first = digest(named_by(WorkloadOptions(requests=200)))

    assert digest(named_by(WorkloadOptions())) == first
    assert digest(named_by(WorkloadOptions(requests=100))) != first
    assert digest(named_by(WorkloadOptions(seconds=5.0))) != first
