"""Penalties and stop tokens without scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from specbench.verify.conformance import PENALTY, PENALTY_WINDOW
from specbench.verify.draws.book import Book, Ids
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.wire import Ask, Completion


def run_penalties(book: Book) -> Evidence | None:
    """Audit greedy output under a frequency penalty; the probe emulates it by logit_bias.

    A disagreement counts only if a bias of the soft margin on the emitted token does not turn it.
    """
    session = book.session
    if "logit_bias" not in session.server.abilities:
        session.seen.not_tested.append(
            "penalties: without logit_bias and scores, draws could only bound them at four times "
            "this budget"
        )
        return None
    asks = [
        Ask(
            ids,
            session.budget.draws.length,
            frequency_penalty=PENALTY,
            ignore_eos=True,
            stream=True,
        )
        for ids in session.next_prompts(session.budget.draws.penalties)
    ]
    answers = [parts[0] for parts in session.ask(asks)]
    session.flush()
    wrong, n = _contradicted(book, asks, answers)
    stale = _explained(book, wrong)
    plain = not stale and _as_if_none(book, wrong)
    fails = f"{len(wrong)} of {n} tokens contradict the penalty" if wrong else ""
    if wrong and plain:
        fails += ", as if none were applied"
    known = session.server.quirks.penalty_gap if session.server.speculative else ""
    return Evidence(
        name="frequency penalty",
        stage="penalty",
        method="one-token requests with the penalty applied as logit_bias",
        n_tokens=n,
        concurrency=session.abreast(len(asks)),
        temperature=0.0,
        fails=fails,
        gap=known if wrong and stale else "",
    )


def run_stops(book: Book) -> Evidence | None:
    """Let answers end by themselves at temperature 0 and 1: nothing may follow a stop token."""
    session = book.session
    prompts = session.prompts.short[:12]
    asks = [Ask(ids, session.budget.draws.length, float(k % 2)) for k, ids in enumerate(prompts)]
    answers = session.ask(asks)
    ended = sum(parts[0].finish == "stop" for parts in answers)
    if not ended:
        # Said at the end, unless another request ends by itself.
        return None
    return Evidence(
        name="stop tokens",
        stage="stop",
        method="answers that end by themselves",
        n_tokens=sum(len(parts[0].ids) for parts in answers),
        concurrency=session.abreast(len(asks)),
        note=f"{ended} of {len(asks)} answers ended by themselves",
    )


Wrong = tuple[Ids, tuple[int, ...], int, int]
"""Prompt, output before the token, the token, and where the round before it began."""


def _contradicted(
    book: Book, asks: Sequence[Ask], answers: Sequence[Completion]
) -> tuple[list[Wrong], int]:
    rows: list[Wrong] = []
    for ask, part in zip(asks, answers, strict=True):
        starts = _round_starts(part)
        rows += [(ask.ids, part.ids[:k], part.ids[k], starts[k]) for k in range(1, len(part.ids))]
    best = _choices(book, rows, soft=False)
    differing = [row for row, token in zip(rows, best, strict=True) if token != row[2]]
    turned = _choices(book, differing, soft=True)
    wrong = [r for r, token in zip(differing, turned, strict=True) if token != r[2]]
    # Some servers count the last tokens of prompt and answer together.
    windowed = _choices(book, wrong, soft=True, windowed=True)
    if all(token == r[2] for r, token in zip(wrong, windowed, strict=True)):
        return [], len(rows)
    return wrong, len(rows)


def _choices(book: Book, rows: Sequence[Wrong], *, soft: bool, windowed: bool = False) -> list[int]:
    if not rows:
        return []
    counted = [(*prompt, *out)[-PENALTY_WINDOW:] if windowed else out for prompt, out, _, _ in rows]
    bias = [_penalty(some) for some in counted]
    if soft:
        for one, (_, _, token, _) in zip(bias, rows, strict=True):
            one[token] = one.get(token, 0.0) + book.session.control.margins.soft
    return book.favourite([(*prompt, *out) for prompt, out, _, _ in rows], bias)


def _explained(book: Book, wrong: Sequence[Wrong]) -> bool:
    """Whether counts that miss the tokens of the newest rounds explain every wrong token."""
    for prompt, out, token, start in wrong[:12]:
        contexts = [(*prompt, *out)] * (len(out) - start + 1)
        bias = [_penalty(out[:k]) for k in range(start, len(out) + 1)]
        for one in bias:
            one[token] = one.get(token, 0.0) + book.session.control.margins.soft
        if token not in book.favourite(contexts, bias):
            return False
    return True


def _as_if_none(book: Book, wrong: Sequence[Wrong]) -> bool:
    some = wrong[:12]
    contexts = [(*prompt, *out) for prompt, out, _, _ in some]
    nudged = [{token: book.session.control.margins.soft} for _, _, token, _ in some]
    found = book.favourite(contexts, nudged) if some else []
    return all(a == row[2] for a, row in zip(found, some, strict=True))


def _penalty(out: Sequence[int]) -> dict[int, float]:
    return {token: -PENALTY * count for token, count in Counter(out).items()}


def _round_starts(part: Completion) -> list[int]:
    """Return for each token where the round before its own began; 0 without visible rounds."""
    if sum(part.rounds) != len(part.ids):
        return [0] * len(part.ids)
    starts, borders = [], [0]
    for size in part.rounds:
        starts += [borders[-2] if len(borders) > 1 else 0] * size
        borders.append(borders[-1] + size)
    return starts
