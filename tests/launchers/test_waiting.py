"""Estimates and patience: what is slow, what is stuck, what is still to come."""

import pytest

from specbench.launchers.waiting import LoadClock, Stillness

HISTORY = {"weights": 100.0, "graphs": 50.0, "warmup": 10.0}


def test_without_history_no_estimate_is_made() -> None:
    clock = LoadClock(0.0)

    assert clock.progress(5.0, "weights", fraction=0.5).eta_s is None


def test_the_estimate_is_the_rest_of_this_phase_and_the_phases_to_come() -> None:
    clock = LoadClock(0.0, HISTORY)

    clock.progress(0.0, "weights")

    assert clock.progress(30.0, "weights").eta_s == pytest.approx(70 + 60)
    assert clock.progress(30.0, "weights", fraction=0.25).eta_s == pytest.approx(90 + 60)
    assert clock.progress(200.0, "weights").eta_s == pytest.approx(60)
    assert clock.progress(210.0, "graphs").eta_s == pytest.approx(50 + 10)


def test_times_of_phases_add_up_to_the_load() -> None:
    clock = LoadClock(0.0)

    for now, phase in ((1.0, "weights"), (4.0, "graphs"), (6.0, "weights")):
        clock.progress(now, phase)  # type: ignore[arg-type]  # phases of a list are plain text

    assert clock.times(7.0) == {"starting": 1.0, "weights": 4.0, "graphs": 2.0}


def watch(work: list[float | None], log: list[int]) -> float:
    """Ask every 4 s for as long as there are readings; the patience is 32 s."""
    readings = iter(work)
    stillness = Stillness(0.0, 32.0, lambda: next(readings))
    still = 0.0
    for step, bytes_read in enumerate(log):
        still = stillness.measure(4.0 * step, bytes_read)
    return still


def test_a_server_that_writes_is_not_still() -> None:
    assert watch([], list(range(20))) == 0.0


def test_a_silent_server_that_works_is_not_still() -> None:
    assert watch([1.0 + n for n in range(20)], [5] * 20) <= 12.0


def test_a_silent_server_that_only_wakes_its_idle_threads_is_still() -> None:
    assert watch([1.0 + 0.01 * n for n in range(20)], [5] * 16) == 60.0


def test_a_silent_server_that_cannot_be_seen_is_not_judged() -> None:
    assert watch([None] * 20, [5] * 20) <= 12.0
