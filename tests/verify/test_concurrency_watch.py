from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import ServiceError
from specbench.verify.concurrency_watch import Watch, summarise
from tests.verify.fake_server import FakeServer
from tests.verify.test_battery import OPTIONS, SMALL, verify


@given(st.lists(st.integers(0, 50)), st.integers(1, 50))
def test_the_peak_is_the_largest_count_and_foreign_is_above_what_was_asked(
    counts: list[int], limit: int
) -> None:
    peak, foreign = summarise(counts, limit)

    assert peak == (max(counts, default=0) or None)
    assert foreign == 0 or foreign <= max(counts) - limit


@pytest.mark.parametrize(
    ("counts", "foreign"),
    [([8, 8, 8, 8], 0), ([16, 8, 8, 8], 0), ([9, 9], 0), ([11, 11, 10, 8], 3), ([9] * 9, 1)],
)
def test_most_looks_must_exceed_what_was_asked_before_others_are_suspected(
    counts: list[int], foreign: int
) -> None:
    assert summarise(counts, 8)[1] == foreign


def test_a_server_that_does_not_say_is_not_judged() -> None:
    class Silent(FakeServer):
        def running(self) -> int | None:
            return None

    watch = Watch()

    with watch.over(Silent(), 4):
        pass

    assert watch.peak(4) is None


def test_a_server_that_dies_meanwhile_ends_the_watch_without_an_error_of_its_own() -> None:
    class Dying(FakeServer):
        def running(self) -> int | None:
            raise ServiceError("gone")

    watch = Watch()

    with watch.over(Dying(), 4):
        pass

    assert watch.since(0) == (None, 0)


def test_a_concurrency_that_the_server_never_ran_is_not_said_to_hold() -> None:
    document = verify(FakeServer(runs_at_most=3))

    found = {c.name: c for c in document.claims}
    assert document.verdict == "inconclusive"
    assert found["greedy, concurrency 1"].verdict == "holds"
    assert found["greedy, concurrency 8"].verdict == "inconclusive"
    assert found["greedy, concurrency 8"].concurrency_effective == 3
    assert "never ran more than 3 requests at once where 8" in document.reason


def test_each_claim_says_how_many_requests_the_server_ran() -> None:
    document = verify(FakeServer())

    seen = {c.name: c.concurrency_effective for c in document.claims}
    assert seen["greedy, concurrency 1"] == 1
    assert seen["greedy, concurrency 8"] == 8
    assert "| 8 (8 seen) |" in document.findings


def test_a_concurrency_above_the_budgets_requests_still_fills_the_server() -> None:
    wide = replace(OPTIONS, concurrency=40, sizes=replace(SMALL, limit=30_000))

    document = verify(FakeServer(concurrency=40), wide)

    claim = next(c for c in document.claims if c.name == "greedy, concurrency 40")
    assert (claim.concurrency, claim.concurrency_effective) == (40, 40)
