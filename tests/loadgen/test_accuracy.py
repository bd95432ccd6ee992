"""What is claimed follows from what the workers saw, and from nothing else."""

import itertools

import msgspec
import pytest

from specbench.loadgen.accuracy import FLOOR_US, accuracy_of, merge, report
from specbench.loadgen.hotpath.client_stats import Sampler, WorkerSummary, percentile

US = 1_000


def summary(**figures: object) -> WorkerSummary:
    defaults = {
        "worker": 0,
        "requests": 100,
        "measured_start_ns": 10,
        "measured_end_ns": 1000,
        "window_start_ns": 20,
        "window_end_ns": 900,
        "reads": 100,
        "kernel_reads": 100,
        "event_reads": 100,
        "exact_reads": 100,
        "events": 100,
        "lag": [5 * US] * 100,
        "late": [10 * US] * 100,
        "ttft_doubt": [10 * US] * 100,
        "gap_doubt": [0] * 100,
        "gap": [10_000 * US] * 100,
        "rtt": [20 * US],
        "cpu_share": 0.3,
        "cpu_ns": 10**9,
    }
    return WorkerSummary(**(defaults | figures))  # type: ignore[arg-type]


def test_the_bounds_are_doubt_round_trip_and_floor() -> None:
    found = accuracy_of([summary()])

    assert found.ttft_error_us == pytest.approx(10 + 20 + FLOOR_US)
    assert found.gap_error_us == pytest.approx(FLOOR_US)
    assert found.flags == ()


def test_a_single_doubtful_chunk_of_a_hundred_widens_the_bound() -> None:
    found = accuracy_of([summary(gap_doubt=[0] * 99 + [7_000 * US])])

    assert found.gap_error_us == pytest.approx(7_000 + FLOOR_US)


@pytest.mark.parametrize(
    "figures",
    [
        {"cpu_share": 0.95},
        {"late": [11_000 * US] * 100},
        {"lag": [11_000 * US] * 100, "exact_reads": 90},
    ],
)
def test_a_client_that_cannot_keep_up_says_so(figures: dict[str, object]) -> None:
    assert accuracy_of([summary(**figures)]).flags == ("client_saturated",)


@pytest.mark.parametrize(
    "figures",
    [
        {"lag": [11_000 * US] * 100},  # late, but every stamp was the kernel's own
        {"exact_reads": 0},  # the server merges events: not the client's doing
    ],
)
def test_what_is_not_the_clients_doing_is_not_blamed_on_it(figures: dict[str, object]) -> None:
    assert accuracy_of([summary(**figures)]).flags == ()


def test_a_clock_step_is_flagged() -> None:
    assert accuracy_of([summary(clock_steps=1)]).flags == ("clock_step",)


def test_what_was_not_seen_is_none() -> None:
    found = accuracy_of([WorkerSummary(worker=0)])

    unseen = (found.exact_share, found.ttft_error_us, found.read_lag_us_p50, found.rtt_us_p50)
    assert unseen == (None, None, None, None)


def test_the_window_is_common_to_all_workers() -> None:
    late, early = summary(window_start_ns=100), summary(window_end_ns=500, worker=1)

    found = report([late, early], start_unix_ns=7)

    assert (found.window_start_ns, found.window_end_ns) == (100, 500)
    assert found.requests == 200
    assert report([late, summary(window_end_ns=None)], start_unix_ns=7).window_start_ns is None


def test_the_worst_host_speaks_for_all() -> None:
    good = report([summary()], start_unix_ns=5)
    bad = report([summary(lag=[900 * US] * 100, clock_steps=2)], start_unix_ns=9)

    both = merge([good, bad])

    assert both.start_unix_ns == 5
    assert both.requests == 200
    assert both.accuracy.read_lag_us_p99 == 900
    assert both.accuracy.flags == ("clock_step",)
    assert both.accuracy.processes == 2


def test_a_sample_is_bounded_even_and_knows_its_maximum() -> None:
    sampler = Sampler(100)
    for start in range(0, 10_000, 7):
        sampler.extend(list(range(start, min(start + 7, 10_000))))

    kept = list(sampler.values)

    assert len(kept) <= 100
    assert sampler.maximum == 9_999
    assert percentile(kept, 0.5) == pytest.approx(5_000, rel=0.1)
    assert len({b - a for a, b in itertools.pairwise(kept)}) == 1


def test_recordings_keep_the_key_under_which_they_have_always_held_it() -> None:
    written = msgspec.json.decode(msgspec.json.encode(report([summary()], start_unix_ns=5)))

    assert written["certificate"]["stamp"] == "kernel"
    assert "accuracy" not in written
