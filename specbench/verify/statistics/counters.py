"""Accept counters that must add up, and counts that must agree with the tokens themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OVERRUN = "more tokens than max_new_tokens"


@dataclass(frozen=True, slots=True)
class RequestCounters:
    """One request's own account: tokens it says and tokens it gave, and its verify counters.

    `derived` are (steps, accepted drafts) that follow from its tokens where the server does not
    count every step: good for coverage, and no identity is asked of them.
    """

    completion_tokens: int | None
    n_ids: int
    max_tokens: int
    finish: str
    verify_ct: int | None = None
    correct: int | None = None
    proposed: int | None = None
    histogram: tuple[int, ...] = ()
    draft_tokens: int | None = None
    rounds: tuple[int, ...] = ()
    derived: tuple[int, int] | None = None


def disagreements(counters: Sequence[RequestCounters]) -> list[str]:
    """Identities that fail, each once, with how many requests and the first example.

    sum h = verify_ct; sum k h[k] = correct; proposed = verify_ct (N - 1); at most N - 1 drafts a
    step; tokens <= 1 + correct + verify_ct (the last step may be cut, never stretched) and
    1 + verify_ct <= tokens + one cut step. Only a cut at max_tokens or a stop may lose drafts.
    """
    found: dict[str, list[str]] = {}
    for one in counters:
        for name, example in _failures(one):
            found.setdefault(name, []).append(example)
    return [
        f"{name} in {len(examples)} of {len(counters)} requests, for example {examples[0]}"
        for name, examples in found.items()
    ]


def accept_len(counters: Sequence[RequestCounters]) -> float | None:
    """Pooled tokens a verify step, bonus included; None where nothing was verified.

    Where a server gives no counters, the chunks of its streams after the first one are the steps.
    """
    steps = sum(c.verify_ct or 0 for c in counters)
    if steps:
        return 1 + sum(c.correct or 0 for c in counters) / steps
    derived = [c.derived for c in counters if c.derived]
    if sum(steps for steps, _ in derived):
        return 1 + sum(accepted for _, accepted in derived) / sum(steps for steps, _ in derived)
    sizes = [size for c in counters for size in c.rounds[1:]]
    return sum(sizes) / len(sizes) if sizes else None


def _failures(one: RequestCounters) -> list[tuple[str, str]]:
    out = []
    if one.completion_tokens is not None and one.completion_tokens != one.n_ids:
        what = f"completion_tokens {one.completion_tokens}, ids {one.n_ids}"
        out.append(("the server counts other tokens than it returns", what))
    if one.n_ids > one.max_tokens:
        what = f"{one.n_ids} for {one.max_tokens}"
        out.append((OVERRUN, what))
    if one.finish == "length" and one.n_ids != one.max_tokens:
        what = f"{one.n_ids} of {one.max_tokens}"
        out.append(("finish_reason is length before max_new_tokens is reached", what))
    if one.verify_ct is None or one.correct is None:
        return out
    return out + _accept_failures(one, one.verify_ct, one.correct)


def _accept_failures(one: RequestCounters, verify_ct: int, correct: int) -> list[tuple[str, str]]:
    out = []
    h = one.histogram
    if h and sum(h) != verify_ct:
        out.append(("histogram does not sum to verify_ct", f"{list(h)} for {verify_ct}"))
    if h and sum(k * c for k, c in enumerate(h)) != correct:
        out.append(("histogram does not give the accepted drafts", f"{list(h)} for {correct}"))
    width = one.draft_tokens
    if width and one.proposed is not None and one.proposed != verify_ct * (width - 1):
        what = f"{one.proposed} for {verify_ct} x {width - 1}"
        out.append(("proposed drafts are not verify_ct x (draft tokens - 1)", what))
    if width and correct > verify_ct * (width - 1):
        what = f"{correct} of at most {verify_ct * (width - 1)}"
        out.append(("more drafts accepted than proposed", what))
    if one.n_ids > 1 + correct + verify_ct:
        what = f"{one.n_ids} tokens from {verify_ct} steps with {correct} accepted drafts"
        out.append(("more tokens than verify steps explain", what))
    elif 1 + correct + verify_ct - one.n_ids > max(width or 0, len(h), 1):
        what = f"{one.n_ids} tokens, {verify_ct} steps, {correct} accepted drafts"
        out.append(("fewer tokens than the accepted drafts say", what))
    return out
