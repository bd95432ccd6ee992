"""What the stages without scores share: probes, paths, open contexts, and draws at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from specbench.verify.session import Session
from specbench.verify.statistics.odds import Odds, noise_nat
from specbench.verify.wire import Ask

Ids = tuple[int, ...]
# Noise between the kernels of verification and of prefill that is always allowed for, in nat.
NOISE_NAT = 0.05
# Above this the estimate is no noise of kernels: a drift must not hide behind its own size.
_MOST_NOISE_NAT = 0.1
# Draws of one request: requests with fewer can be compared with each other for shared coins.
PER_CALL = 8


@dataclass(frozen=True, slots=True)
class Node:
    """An open context `path[:place]`; the `run` tokens before it are nearly certain."""

    path: Ids
    place: int
    run: int

    @property
    def context(self) -> Ids:
        """The prompt whose next token is open."""
        return self.path[: self.place]


@dataclass(slots=True)
class Book:
    """`favourites` by context, `paths` of greedy outputs with the place where the output begins.

    `unfiltered` holds draws at each node by temperature; `cold` the draws at a quarter of the
    temperature where greedy output and probe disagree.
    """

    session: Session
    favourites: dict[Ids, int] = field(default_factory=dict)
    paths: list[tuple[Ids, int]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    unfiltered: dict[float, dict[Ids, list[int]]] = field(default_factory=dict)
    cold: list[Odds] = field(default_factory=list)

    def allowance(self, temperature: float) -> float:
        """Return the noise in nat of the logits at a temperature: it grows as one over it."""
        seen = min(noise_nat(self.cold) or 0.0, _MOST_NOISE_NAT)
        return max(NOISE_NAT, 2 * 2**0.5 * seen) / temperature

    def favourite(
        self, contexts: Sequence[Ids], bias: Sequence[dict[int, float]] = ()
    ) -> list[int]:
        """Return prefill's greedy choice at each context; contexts that were asked are free."""
        if bias:
            asks = [
                Ask(c, 1, ignore_eos=True, logit_bias=tuple(b.items()))
                for c, b in zip(contexts, bias, strict=True)
            ]
            return [drawn[0] for drawn in self._one_token(asks)]
        fresh = [c for c in dict.fromkeys(contexts) if c not in self.favourites]
        asks = [Ask(ids=c, max_tokens=1, ignore_eos=True) for c in fresh]
        for context, drawn in zip(fresh, self._one_token(asks), strict=True):
            self.favourites[context] = drawn[0]
        return [self.favourites[c] for c in contexts]

    def draw(self, contexts: Sequence[Ids], counts: Sequence[int], like: Ask) -> list[list[int]]:
        """Return so many plain draws at each context, with the sampling parameters of `like`."""
        asks, owner = [], []
        for index, (context, count) in enumerate(zip(contexts, counts, strict=True)):
            for n in split(count, self.per_call):
                asks.append(_at(like, context, 1, n))
                owner.append(index)
        found: list[list[int]] = [[] for _ in contexts]
        for index, drawn in zip(owner, self._one_token(asks), strict=True):
            found[index] += drawn
        return found

    @property
    def per_call(self) -> int:
        """How many completions one request may have."""
        return PER_CALL if "n" in self.session.server.abilities else 1

    def _one_token(self, asks: Sequence[Ask]) -> list[list[int]]:
        if not asks:
            return []
        answers = self.session.ask(asks)
        self.session.seen.verified_probes += sum(
            bool(part.counters.verify_ct) for parts in answers for part in parts
        )
        return [[part.ids[0] for part in parts if part.ids] or [-1] for parts in answers]


def split(count: int, per_call: int) -> list[int]:
    """Split a number of draws over requests of at most `per_call`."""
    return [min(per_call, count - k) for k in range(0, count, per_call)]


def _at(like: Ask, context: Ids, max_tokens: int, n: int) -> Ask:
    return Ask(
        ids=context,
        max_tokens=max_tokens,
        temperature=like.temperature,
        top_k=like.top_k,
        top_p=like.top_p,
        min_p=like.min_p,
        ignore_eos=True,
        n=n,
    )
