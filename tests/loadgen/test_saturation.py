"""The saturation search finds the knee of a throughput curve with few measurements."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from specbench.loadgen.saturation import next_level, saturation


def search(curve: Callable[[int], float], limit: int) -> dict[int, float]:
    measured: dict[int, float] = {}
    while (level := next_level(measured, limit)) is not None:
        assert level not in measured
        measured[level] = curve(level)
    return measured


@given(st.integers(1, 2000), st.floats(1, 1e4))
def test_a_server_with_so_many_places_saturates_there(places: int, speed: float) -> None:
    measured = search(lambda level: speed * min(level, places), 4096)

    found = saturation(measured)

    assert 0.95 * places <= found <= max(places * 1.3, places + 1)
    assert len(measured) <= 20


@given(st.integers(1, 500))
def test_a_server_that_never_saturates_is_measured_up_to_the_limit(limit: int) -> None:
    measured = search(float, limit)

    assert max(measured) == limit


def test_a_server_that_gains_nothing_is_saturated_at_one() -> None:
    measured = search(lambda _: 100.0, 1024)

    assert saturation(measured) == 1
    assert sorted(measured) == [1, 2]
