"""Load shapes as functions of time."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import InputError
from specbench.loadgen.schedule import (
    Share,
    arrivals,
    check_load,
    choose_processes,
    closed_starts,
    duration_s,
)
from specbench.model.load import Closed, LoadSpec, Open, Ramp, Replay, Sampling, Shape, Stop, Target


def load(shape: Shape, **stop: float) -> LoadSpec:
    return LoadSpec(
        target=Target(url="http://h", model="m"),
        prompts_path="p",
        sampling=Sampling(),
        shape=shape,
        stop=Stop(**stop),  # type: ignore[arg-type]
    )


def test_a_constant_rate_is_a_grid_from_zero() -> None:
    times = itertools.islice(arrivals(Open(rate=4, process="constant"), warmup=0, seed=1), 5)

    assert list(times) == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])


@given(st.floats(0.5, 500), st.integers(0, 2**31))
def test_poisson_arrivals_ascend_at_the_rate(rate: float, seed: int) -> None:
    times = list(itertools.islice(arrivals(Open(rate=rate), warmup=0, seed=seed), 4000))

    assert times == sorted(times)
    assert len(times) / times[-1] == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize(("burstiness", "variation"), [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)])
def test_gamma_gaps_have_the_variation_of_their_burstiness(
    burstiness: float, variation: float
) -> None:
    shape = Open(rate=10, process="gamma", burstiness=burstiness)
    times = [0.0, *itertools.islice(arrivals(shape, warmup=0, seed=3), 40_000)]

    gaps = [b - a for a, b in itertools.pairwise(times)]

    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation / mean == pytest.approx(variation, rel=0.05)


@given(st.integers(0, 2**31))
def test_the_same_seed_is_the_same_schedule(seed: int) -> None:
    first, second = (
        list(itertools.islice(arrivals(Open(rate=5), warmup=0, seed=seed), 50)) for _ in range(2)
    )

    assert first == second


def test_steps_hold_their_rates() -> None:
    times = list(arrivals(Ramp(steps=((10, 2), (0, 1), (20, 1))), warmup=0, seed=0))

    assert len(times) == 40
    assert sum(time < 2 for time in times) == 20
    assert not any(2 <= time < 3 for time in times)
    assert all(time < 4 for time in times)


@given(st.floats(1, 50), st.floats(1, 50), st.floats(0.5, 20))
def test_a_linear_ramp_sends_the_integral_of_its_rate(
    low: float, high: float, length: float
) -> None:
    shape = Ramp(steps=((low, length), (high, 1.0)), linear=True)

    times = list(arrivals(shape, warmup=0, seed=0))

    assert abs(sum(time < length for time in times) - (low + high) / 2 * length) <= 1.001
    assert times == sorted(times)


def test_a_replay_keeps_its_offsets_at_its_speed_after_the_warm_up() -> None:
    shape = Replay(offsets_s=(0.0, 1.0, 4.0), speed=2.0)

    times = list(arrivals(shape, warmup=3, seed=0))

    begin = times[3]
    assert [time - begin for time in times[3:]] == pytest.approx([0, 0.5, 2.0])
    assert all(time < begin for time in times[:3])
    assert duration_s(shape) == 2.0


@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 500))
def test_shares_partition_all_requests(hosts: int, processes: int, total: int) -> None:
    shares = [part for host in range(hosts) for part in Share(host, hosts).split(processes)]

    taken = sorted(index for share in shares for index in range(share.index, total, share.of))

    assert taken == list(range(total))
    assert sum(share.count(total) for share in shares) == total


@given(st.integers(1, 300), st.floats(0, 10), st.integers(1, 8))
def test_staggered_starts_are_even_whatever_the_shares(
    slots: int, stagger: float, parts: int
) -> None:
    shape = Closed(concurrency=slots, stagger_s=stagger)

    together = sorted(
        start for share in Share().split(parts) for start in closed_starts(shape, share)
    )

    assert together == pytest.approx([stagger * slot / slots for slot in range(slots)])


@pytest.mark.parametrize(
    ("streams", "cores", "processes"),
    [(1, 1, 1), (512, 8, 1), (513, 8, 2), (4096, 8, 7), (4096, 2, 1)],
)
def test_processes_follow_the_streams_and_leave_a_core(
    streams: int, cores: int, processes: int
) -> None:
    assert choose_processes(load(Closed(concurrency=streams)), cores) == processes


@pytest.mark.parametrize(
    "bad",
    [
        load(Closed(concurrency=0)),
        load(Open(rate=0)),
        load(Open(rate=float("nan"))),
        load(Open(rate=1, process="gamma", burstiness=0)),
        load(Ramp(steps=())),
        load(Ramp(steps=((1, 0),))),
        load(Replay(offsets_s=())),
        load(Replay(offsets_s=(-1.0,))),
        load(Closed(concurrency=1), requests=0),
        load(Closed(concurrency=1), seconds=0),
        load(Closed(concurrency=1), tokens=0),
    ],
)
def test_a_job_that_cannot_be_driven_is_refused(bad: LoadSpec) -> None:
    with pytest.raises(InputError):
        check_load(bad)
