"""What requests cost: lengths, verify steps and pace by prompt and by request, under many laws."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.laws.replay import replies

Array = NDArray[np.float64]
Lengths = Literal["lognormal", "replayed", "pareto", "two kinds"]

PREFILL_STEPS = 2.0
_DRAWS_FOR_THE_TRUTH = 2000
_PROMPTS_FOR_THE_TRUTH = 100_000


@dataclass(frozen=True)
class Workload:
    """One set of prompts and the law of their replies.

    Standard deviations are of logarithms. `between` is of lengths between prompts, `within` of what
    a request adds at T>0 (greedy replies are equal every time). `long` = (n, times): n prompts are
    that many times longer. `pace_sd` is of steps a token between prompts; `accept_sd` of what a
    request adds to it at T>0. `request_sd` is of the time of one request, of a t law with
    `request_df`. `suits_sd`: by how much the second arm suits some prompts better than others;
    `suits_length` moves that by the prompt's length (in standard deviations).
    Laws of lengths beside the lognormal: `replayed` from the quickstart's recording, `pareto` (tail
    index 1.6), `two kinds` (one request in six thinks eight times longer, at T>0).
    """

    prompts: int = 32
    passes: int = 1
    lengths: Lengths = "lognormal"
    median_tokens: float = 200.0
    between: float = 0.5
    within: float = 0.5
    long: tuple[int, float] | None = None
    accept: float = 3.0
    pace_sd: float = 0.20
    accept_sd: float = 0.25
    request_sd: float = 0.03
    request_df: float = np.inf
    suits_sd: float = 0.0
    suits_length: float = 0.0

    @property
    def requests(self) -> int:
        """How many a trial sends: whole passes."""
        return self.prompts * self.passes


@dataclass(frozen=True)
class Prompts:
    """One drawn set: mean length, steps a token, and how much slower the second arm is on it."""

    tokens: Array
    pace: Array
    suits: Array
    source: NDArray[np.int64]


@dataclass(frozen=True)
class Cost:
    """Of requests: output tokens, verify steps, decode time in units of the engine's step."""

    tokens: Array
    steps: Array
    decode: Array


def draw_prompts(law: Workload, random: np.random.Generator, count: int | None = None) -> Prompts:
    """Draw the prompts of a run (or `count` of the population)."""
    n = law.prompts if count is None else count
    source = np.zeros(n, dtype=np.int64)
    if law.lengths == "replayed":
        known = len(replies(greedy=True))
        source = random.permutation(known)[:n] if n <= known else random.integers(known, size=n)
        tokens = replies(greedy=False)[source, :, 0].mean(axis=1)
    elif law.lengths == "pareto":
        tokens = law.median_tokens / 2 * random.uniform(size=n) ** (-1 / 1.6)
    else:
        tokens = law.median_tokens * np.exp(random.normal(0, law.between, n))
    if law.long is not None:
        share, times = law.long[0] / law.prompts, law.long[1]
        chosen = (
            random.permutation(n)[: law.long[0]]
            if count is None
            else random.uniform(size=n) < share
        )
        tokens[chosen] *= times
    pace = np.exp(random.normal(0, law.pace_sd, n))
    suits = random.normal(0, law.suits_sd, n)
    centred = np.log(tokens / law.median_tokens) / law.between
    return Prompts(tokens, pace, suits + law.suits_length * centred, source)


def cost(
    law: Workload, prompts: Prompts, asked: NDArray[np.int64], random: np.random.Generator,
    *, greedy: bool,
) -> Cost:  # fmt: skip
    """Draw what requests cost; `asked` are places in `prompts`, of any shape."""
    shape = asked.shape
    if law.lengths == "replayed":
        table = replies(greedy=greedy)
        pick = random.integers(table.shape[1], size=shape)
        pairs = table[prompts.source[asked], pick]
        tokens, steps = pairs[..., 0], pairs[..., 1]
    else:
        tokens = prompts.tokens[asked]
        accept = law.accept / prompts.pace[asked]
        if not greedy:
            tokens = tokens * np.exp(random.normal(0, law.within, shape))
            accept = accept * np.exp(random.normal(0, law.accept_sd, shape))
            if law.lengths == "two kinds":
                tokens = tokens * np.where(random.uniform(size=shape) < 1 / 6, 8.0, 1.0)
        tokens = np.maximum(2, np.round(tokens))
        steps = np.maximum(1, np.round((tokens - 1) / np.maximum(1, accept)))
    noise = np.exp(law.request_sd * _standard(random, law.request_df, shape))
    return Cost(tokens=tokens, steps=steps, decode=steps * noise)


def _standard(random: np.random.Generator, df: float, shape: tuple[int, ...]) -> Array:
    if np.isinf(df):
        return random.normal(size=shape)
    # Bounded where a reply would take twenty times its time: a client gives up before.
    return np.clip(random.standard_t(df, size=shape), -30, 30)


def truth_of_these(
    law: Workload, prompts: Prompts, random: np.random.Generator, *, greedy: bool
) -> float:
    """Log ratio of the arms' rates over these prompts, asked for ever, from the prompts alone."""
    if not law.suits_sd and not law.suits_length:
        return 0.0
    repeats = 1 if greedy and law.request_sd == 0 else _DRAWS_FOR_THE_TRUTH
    asked = np.tile(np.arange(len(prompts.tokens)), (repeats, 1))
    decode = cost(law, prompts, asked, random, greedy=greedy).decode.mean(axis=0)
    return _ratio(decode, prompts.suits)


@cache
def truth_of_such(law: Workload, *, greedy: bool) -> float:
    """Give the same over the population of prompts."""
    if not law.suits_sd and not law.suits_length:
        return 0.0
    random = np.random.default_rng(20)
    prompts = draw_prompts(law, random, count=_PROMPTS_FOR_THE_TRUTH)
    asked = np.arange(len(prompts.tokens))
    return _ratio(cost(law, prompts, asked, random, greedy=greedy).decode, prompts.suits)


def _ratio(decode: Array, suits: Array) -> float:
    first = (PREFILL_STEPS + decode).sum()
    second = (PREFILL_STEPS + decode * np.exp(suits)).sum()
    return float(np.log(first / second))
