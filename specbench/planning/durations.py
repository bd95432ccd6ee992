"""How long launches and trials will take: by recordings, the user, or a model of the hardware."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from specbench.model.bill import Assumptions, Gpu, ModelFacts, Source, Span
from specbench.model.load import Closed, Open, Ramp, Replay, Shape
from specbench.model.plan import Asked, Block, Trial
from specbench.planning.expected import Expected
from specbench.planning.hardware import launch_s, token_s

BATCHING = Span(low=0.9, expected=0.75, high=0.5)
"""c streams give c to that power times the tokens of one: 1 were free batching, 0 none at all."""

SHORTER = 0.4
"""Replies that end by themselves may be that much shorter than `max_tokens`."""

SETTLE_S = 5.0
"""Flush, warm connections and writing, for each trial."""

OPEN_SLOTS = 8
"""An open loop without a bound is taken to hold as many in flight."""

VERIFY_TOKENS = {"quick": 13_000, "default": 120_000, "deep": 480_000}
"""Generated tokens at most of one verdict, by depth, with about `OPEN_SLOTS` in flight."""

FROM_RECORDINGS = Span(low=0.8, expected=1.0, high=1.3)
"""A trial as one of before, of the same host and model: what is left are other days."""


class Told(NamedTuple):
    """Seconds, and what tells them."""

    seconds: Span
    source: Source


@dataclass(frozen=True)
class Durations:
    """Tells seconds; None where nothing does. `gpus` maps a host to its kind of GPU."""

    expected: Expected
    said: Assumptions = field(default_factory=Assumptions)
    model: ModelFacts | None = None
    gpus: dict[str, Gpu | None] = field(default_factory=dict)

    def launch(self, block: Block) -> Told | None:
        """Tell how long a launch takes until its server is ready."""
        seen = self.expected.load_s(block)
        if seen is not None:
            return Told(FROM_RECORDINGS.times(seen), "recordings")
        if self.said.launch_minutes is not None:
            return Told(Span.exactly(60.0 * self.said.launch_minutes), "said")
        return None if self.model is None else Told(launch_s(self.model), "hardware")

    def trial(self, trial: Trial, block: Block) -> Told | None:
        """Tell how long a trial takes."""
        seen = self.expected.trial_s(trial, block.spec.model_path)
        if seen is not None:
            return Told(FROM_RECORDINGS.times(seen), "recordings")
        token = self._token(block)
        if token is None or trial.asked is None:
            return None
        if trial.kind == "verify":
            return Told(_verification(trial, token.seconds), token.source)
        return Told(_load(trial.asked, token.seconds), token.source)

    def _token(self, block: Block) -> Told | None:
        """Tell the seconds of one token of a single stream."""
        if self.said.tok_s is not None:
            return Told(Span.exactly(1.0 / self.said.tok_s), "said")
        gpu = self.gpus.get(block.host)
        if self.model is None or gpu is None:
            return None
        return Told(token_s(self.model, gpu, shards_of(block)), "hardware")


def shards_of(block: Block) -> int:
    """Count the GPUs that one server of a block spreads over."""
    sizes = (block.spec.levels.get(name) for name in ("tp", "pp", "dp"))
    return math.prod(int(size) for size in sizes if isinstance(size, int) and size > 0)


def _load(asked: Asked, token: Span) -> Span:
    """Tell the seconds of a load of `max_tokens` replies, ended by time or tokens where asked."""
    options, slots = asked.workload, slots_of(asked.shape)
    warmup = max(2, slots) if options.warmup == "auto" else options.warmup
    full = math.inf if asked.requests is None else float(asked.requests * options.max_tokens)
    tokens = min(full, options.tokens or math.inf)
    longest = options.seconds or math.inf
    shorter = 1.0 if options.ignore_eos else SHORTER

    def seconds(one: float, power: float, share: float) -> float:
        rate = math.pow(slots, power) / one
        arriving = _arriving(asked)
        measured = min(max(tokens * share / rate, arriving), longest)
        return SETTLE_S + measured + warmup * options.max_tokens * share / rate

    return Span(
        low=seconds(token.low, BATCHING.low, shorter),
        expected=seconds(token.expected, BATCHING.expected, 1.0),
        high=seconds(token.high, BATCHING.high, 1.0),
    )


def slots_of(shape: Shape) -> int:
    """Count the requests in flight; an open loop without a bound is taken to have a few."""
    match shape:
        case Closed():
            return shape.concurrency
        case Open():
            return shape.max_in_flight or OPEN_SLOTS
        case Ramp() | Replay():
            return OPEN_SLOTS


def _arriving(asked: Asked) -> float:
    """Tell the seconds until the last request of an open loop is due."""
    shape = asked.shape
    return (asked.requests or 0) / shape.rate if isinstance(shape, Open) else 0.0


def _verification(trial: Trial, token: Span) -> Span:
    most = VERIFY_TOKENS[trial.definition.get("verify", "default")]
    return Span(
        low=0.2 * most * token.low / OPEN_SLOTS**BATCHING.low,
        expected=0.6 * most * token.expected / OPEN_SLOTS**BATCHING.expected,
        high=most * token.high / OPEN_SLOTS**BATCHING.high,
    )
