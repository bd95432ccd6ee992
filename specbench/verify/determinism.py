"""Does greedy output repeat itself? A property with its cause class, never a fault by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specbench.verify.session import Session
from specbench.verify.wire import Ask, Completion

PROMPTS = 4
LENGTH = 32


@dataclass(frozen=True, slots=True)
class Differences:
    """`differing` of `compared` outputs; `margin` is the widest first difference in nat.

    The margin is between the two tokens by the server's own prefill; NaN where it is not known.
    """

    compared: int
    differing: int
    margin: float


def cost(session: Session) -> int:
    """Return the most tokens that `describe_determinism` generates."""
    return LENGTH * PROMPTS * (2 + _copies(session)) * session.price


def describe_determinism(session: Session) -> str:
    """Ask the same prompts twice alone and then side by side; say what differed, and how far.

    The prefix cache is emptied before each pass: a cached prompt is another kernel's work.

    Raises:
        Refused: the server does not give prompt log-probabilities.

    """
    asks = [
        Ask(ids=ids, max_tokens=LENGTH, ignore_eos=True) for ids in session.prompts.chat[:PROMPTS]
    ]
    first, second = (_pass(session, asks, 1) for _ in range(2))
    c = session.client.concurrency
    batched = _pass(session, asks * _copies(session), c)
    alone = _compare(session, asks, first, second)
    beside = _compare(session, asks, first * _copies(session), batched)
    shown = f"{len(asks)} prompts of {LENGTH} tokens; {_say(alone, 'concurrency 1, twice')}"
    if c > 1:
        shown += f"; {_say(beside, f'concurrency {c} against 1')}"
    return (
        f"determinism at temperature 0 (a property, not a fault): {shown}: {_cause(alone, beside)}"
    )


def _copies(session: Session) -> int:
    """Return how often each prompt is asked side by side, so that C requests are in flight."""
    return -(-session.client.concurrency // PROMPTS)


def _pass(session: Session, asks: Sequence[Ask], concurrency: int) -> list[Completion]:
    if "flush" in session.server.abilities:
        session.client.flush()
    return [parts[0] for parts in session.ask(asks, concurrency)]


def _compare(
    session: Session, asks: Sequence[Ask], left: Sequence[Completion], right: Sequence[Completion]
) -> Differences:
    differing, margin = 0, 0.0
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if a.ids != b.ids:
            differing += 1
            found = _margin(session, asks[index % len(asks)].ids, a.ids, b.ids)
            margin = max(margin, found) if math.isfinite(found) else found
    return Differences(len(right), differing, margin)


def _margin(
    session: Session, prompt: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]
) -> float:
    """Return how far apart prefill holds the two tokens of the first difference."""
    pairs = enumerate(zip(a, b, strict=False))
    place = next((k for k, (x, y) in pairs if x != y), None)
    if place is None:
        return math.nan
    if session.server.level == "draws":
        return math.nan
    context = (*prompt, *a[:place])
    score = session.score_one((*context, a[place]), len(context))
    known = dict(zip(score.top_ids[0], score.top_logp[0], strict=True))
    return abs(score.logp[0] - known.get(b[place], math.nan))


def _say(found: Differences, what: str) -> str:
    if not found.differing:
        return f"{what}: all equal"
    how = f"widest first difference {found.margin:.2f} nat" if math.isfinite(found.margin) else ""
    return f"{what}: {found.differing} of {found.compared} differ" + (f" ({how})" if how else "")


def _cause(alone: Differences, beside: Differences) -> str:
    if alone.differing:
        return "differs from run to run without any batch (kernels, or state between requests)"
    if beside.differing:
        return "batch-dependent kernels"
    return "no difference seen"
