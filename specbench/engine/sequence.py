"""The state of one request inside the decoder: its tokens, its key-value slots, its counters."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.engine.features import MEMORY, NOTHING, REACH
from specbench.engine.sampling import SamplingParams
from specbench.engine.weights import Floats

Ints = NDArray[np.int64]


class Finish(NamedTuple):
    """Why a request ended: its `matched` token for stop, its length for length."""

    type: Literal["stop", "length", "abort"]
    matched: int | str | None = None


class TokenLogprob(NamedTuple):
    """The log-probability of one token and of those asked for beside it, as (logprob, id)."""

    logprob: float
    token: int
    top: tuple[tuple[float, int], ...] = ()
    chosen: tuple[tuple[float, int], ...] = ()


class LogprobWish(NamedTuple):
    """Which log-probabilities a request wants beside those of its own tokens."""

    top_n: int = 0
    token_ids: tuple[int, ...] = ()


@dataclass(slots=True)
class KvCache:
    """The committed slots of a sequence, in slot order: token, position, memory.

    In an undisturbed cache slot j holds position j. Nothing relies on that: rows look slots up by
    position, so a cache that was committed wrongly answers wrongly.
    """

    length: int = 0
    _tokens: Ints = field(default_factory=lambda: np.empty(64, dtype=np.int64))
    _positions: Ints = field(default_factory=lambda: np.empty(64, dtype=np.int64))
    _memory: Floats = field(default_factory=lambda: np.empty((64, MEMORY), dtype=np.float32))

    @property
    def tokens(self) -> Ints:
        """Tokens of the slots (length,)."""
        return self._tokens[: self.length]

    @property
    def positions(self) -> Ints:
        """Positions of the slots (length,)."""
        return self._positions[: self.length]

    @property
    def memory(self) -> Floats:
        """Memories of the slots (length, MEMORY)."""
        return self._memory[: self.length]

    def append(self, tokens: Ints, positions: Ints, memory: Floats) -> None:
        """Commit slots after the last one."""
        end = self.length + len(tokens)
        if end > len(self._tokens):
            self._reserve(2 * end)
        self._tokens[self.length : end] = tokens
        self._positions[self.length : end] = positions
        self._memory[self.length : end] = memory
        self.length = end

    def prefix(self, length: int) -> "KvCache":
        """Return a copy of the first slots, for another sequence that begins the same way."""
        copy = KvCache()
        copy.append(self.tokens[:length], self.positions[:length], self.memory[:length])
        return copy

    def _reserve(self, capacity: int) -> None:
        for name in ("_tokens", "_positions", "_memory"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: self.length] = old[: self.length]
            setattr(self, name, new)


@dataclass(slots=True, eq=False)
class Sequence:
    """One request: what it asked, what it has got, and where its cache stands.

    The cache holds every token but the last one emitted: that one is the root of the next round.
    (A round that ended the request may have committed accepted drafts beyond its end.)
    Counters are SGLang's: they grow with every verify step, and the last step is counted whole
    even if the request ended inside it.
    """

    request_id: str
    prompt_ids: list[int]
    params: SamplingParams = field(default_factory=SamplingParams)
    logprobs: LogprobWish | None = None
    number: int = 0  # how many requests the decoder had prefilled before this one
    output_ids: list[int] = field(default_factory=list)
    output_logprobs: list[TokenLogprob] = field(default_factory=list)
    kv: KvCache = field(default_factory=KvCache)
    cached_tokens: int = 0
    verify_ct: int = 0
    accepted: int = 0
    proposed: int = 0
    histogram: list[int] = field(default_factory=list)
    last_accepted: int = 0
    finish: Finish | None = None
    generated: Counter[int] = field(default_factory=Counter)  # filled only if penalties ask
    draft_state: object | None = None  # what a drafter that reads along keeps

    @property
    def current(self) -> int:
        """The last token emitted, whose slot is not yet in the cache."""
        return self.output_ids[-1]

    @property
    def ids(self) -> list[int]:
        """The prompt and everything emitted so far."""
        return self.prompt_ids + self.output_ids

    def recent(self) -> list[int]:
        """Return the REACH tokens before the current one, nearest first."""
        newest = self.output_ids[-REACH - 1 :]
        missing = REACH + 1 - len(newest)
        return tokens_before(self.prompt_ids[-missing:] + newest if missing else newest)

    def count_verification(self, accepted: int, proposed: int) -> None:
        """Add one verify step in which `accepted` of `proposed` drafts were accepted."""
        self.verify_ct += 1
        self.accepted += accepted
        self.proposed += proposed
        self.last_accepted = accepted
        if accepted >= len(self.histogram):
            self.histogram += [0] * (accepted + 1 - len(self.histogram))
        self.histogram[accepted] += 1


def tokens_before(ids: list[int]) -> list[int]:
    """Return the REACH tokens before the last one, nearest first; NOTHING where there is none."""
    before = ids[-2 : -REACH - 2 : -1]
    return before + [NOTHING] * (REACH - len(before))
