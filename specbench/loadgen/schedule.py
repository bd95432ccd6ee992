"""When requests are meant to be sent: pure functions of the load shape, the seed and the index.

Offsets are seconds from the start of the drive. A drive that is shared between processes or hosts
gives request i to share i mod n; all of them compute the same schedule, so that together they send
exactly what one would have sent.
"""

import itertools
import math
import random
from collections.abc import Iterator

import msgspec

from specbench.errors import InputError
from specbench.model.load import Closed, LoadSpec, Open, Ramp, Replay, Shape


class Share(msgspec.Struct, frozen=True):
    """Part `index` of `of` equal parts of a drive."""

    index: int = 0
    of: int = 1

    def count(self, total: int) -> int:
        """How many of the requests 0..total-1 belong to this part."""
        return max(0, (total - self.index + self.of - 1) // self.of)

    def split(self, parts: int) -> "list[Share]":
        """Divide this part into `parts` smaller ones."""
        return [Share(self.index + self.of * part, self.of * parts) for part in range(parts)]


def arrivals(shape: Open | Ramp | Replay, *, warmup: int, seed: int) -> Iterator[float]:
    """Yield the intended send times, ascending; the first `warmup` of them are warm-up.

    An open loop has no end. A ramp and a replay end; their warm-up comes before them, evenly
    spaced at their first rate, so that the measured part keeps its own times.
    """
    match shape:
        case Open():
            yield from itertools.accumulate(_gaps(shape, random.Random(seed)))  # noqa: S311 - a schedule, not a secret
        case Ramp():
            rate = max(shape.steps[0][0], 1.0)
            yield from (index / rate for index in range(warmup))
            yield from (warmup / rate + offset for offset in _ramp(shape))
        case Replay():
            rate = _replay_rate(shape)
            yield from (index / rate for index in range(warmup))
            yield from (warmup / rate + offset / shape.speed for offset in sorted(shape.offsets_s))


def closed_starts(shape: Closed, share: Share) -> list[float]:
    """Give the first send time of each slot of this share: evenly staggered over `stagger_s`."""
    slots = range(share.index, shape.concurrency, share.of)
    return [shape.stagger_s * slot / shape.concurrency for slot in slots]


def duration_s(shape: Shape) -> float | None:
    """How long the measured part of a shape lasts by itself; None when it has no end."""
    match shape:
        case Ramp():
            return sum(seconds for _, seconds in shape.steps)
        case Replay():
            return max(shape.offsets_s, default=0.0) / shape.speed
        case _:
            return None


def choose_processes(load: LoadSpec, cores: int) -> int:
    """How many worker processes drive this load when it does not say.

    One process keeps up with about 100,000 events a second on a whole core; half of that is left
    as reserve, and a stream is taken to send 100 events a second: a process for each 512 streams.
    An open loop is taken to hold two seconds of arrivals. One core stays with everybody else.
    """
    if load.processes > 0:
        return load.processes
    return max(1, min(math.ceil(_expected_streams(load.shape) / 512), cores - 1))


def _expected_streams(shape: Shape) -> float:
    match shape:
        case Closed():
            return float(shape.concurrency)
        case Open():
            return 2 * shape.rate
        case Ramp():
            return 2 * max(rate for rate, _ in shape.steps)
        case Replay():
            return 2 * _replay_rate(shape)


def check_load(load: LoadSpec) -> None:
    """Refuse a load that cannot be driven, before anything is sent. Raises InputError."""
    stop = load.stop
    problems = {
        "stop.requests must be at least 1": stop.requests is not None and stop.requests < 1,
        "stop.seconds must be positive": stop.seconds is not None and stop.seconds <= 0,
        "stop.tokens must be at least 1": stop.tokens is not None and stop.tokens < 1,
        "warmup_requests must not be negative": load.warmup_requests < 0,
        "request_timeout_s must be positive": not load.request_timeout_s > 0,
        _shape_problem(load.shape): _shape_problem(load.shape) != "",
    }
    for problem, found in problems.items():
        if found:
            raise InputError(problem)


def _shape_problem(shape: Shape) -> str:
    match shape:
        case Closed():
            sound = shape.concurrency >= 1 and shape.stagger_s >= 0
            return "" if sound else "concurrency must be at least 1, stagger_s not negative"
        case Open():
            sound = 0 < shape.rate < math.inf and shape.burstiness > 0
            return "" if sound else "rate and burstiness must be positive"
        case Ramp():
            sound = bool(shape.steps) and all(rate >= 0 and s > 0 for rate, s in shape.steps)
            return "" if sound else "a ramp needs steps of (rate >= 0, seconds > 0)"
        case Replay():
            sound = bool(shape.offsets_s) and shape.speed > 0 and min(shape.offsets_s) >= 0
            return "" if sound else "a replay needs offsets, none negative, and a positive speed"


def _gaps(shape: Open, coin: random.Random) -> Iterator[float]:
    """Inter-arrival times with mean 1/rate; gamma with shape k has a squared variation of 1/k."""
    mean = 1.0 / shape.rate
    match shape.process:
        case "constant":
            yield 0.0
            yield from itertools.repeat(mean)
        case "poisson":
            while True:
                yield coin.expovariate(shape.rate)
        case "gamma":
            while True:
                yield coin.gammavariate(shape.burstiness, mean / shape.burstiness)


def _ramp(shape: Ramp) -> Iterator[float]:
    """Invert the integral of the rate: arrival n is where n requests are due.

    With `linear`, the rate goes in a straight line from each step's rate to the next one's, and
    stays at the last one's. Inside a step of length T the integral is r0*t + (r1-r0)*t^2/(2T).
    """
    start, due = 0.0, 0.0
    rates = [rate for rate, _ in shape.steps]
    for (first, length), following in zip(shape.steps, [*rates[1:], rates[-1]], strict=True):
        last = following if shape.linear else first
        slope = (last - first) / length
        total = (first + last) / 2 * length
        next_due = math.ceil(due - 1e-9)
        while next_due < due + total - 1e-9:
            yield start + _solve(first, slope, next_due - due)
            next_due += 1
        start, due = start + length, due + total


def _solve(rate: float, slope: float, area: float) -> float:
    """Find t with rate*t + slope*t^2/2 = area, in the form that is stable for small slopes."""
    if area <= 0:
        return 0.0
    root = math.sqrt(max(rate * rate + 2 * slope * area, 0.0))
    return 2 * area / (rate + root)


def _replay_rate(shape: Replay) -> float:
    span = (max(shape.offsets_s) - min(shape.offsets_s)) / shape.speed
    return max(len(shape.offsets_s) / span, 1.0) if span > 0 else 1.0
