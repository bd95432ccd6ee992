"""Penalties and stop tokens without scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
    rows = _rows(asks, answers)
    wrong, n = _contradicted(book, rows), len(rows)
    plain = bool(wrong) and _as_if_none(book, [*wrong[:_LOOKED_AT], *rows[:: len(rows) // 40 or 1]])
    stale = not plain and _explained(book, wrong)
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


@dataclass(frozen=True, slots=True)
class Rounds:
    """Where the newest finished round began, and the places of the last token of each of them."""

    begun: int
    ends: tuple[int, ...]


_LOOKED_AT = 12
Row = tuple[Ids, tuple[int, ...], int, Rounds]
"""Prompt, output before the token, the token, and the rounds before its own."""


def _rows(asks: Sequence[Ask], answers: Sequence[Completion]) -> list[Row]:
    rows: list[Row] = []
    for ask, part in zip(asks, answers, strict=True):
        rounds = _rounds_before(part)
        rows += [(ask.ids, part.ids[:k], part.ids[k], rounds[k]) for k in range(1, len(part.ids))]
    return rows


def _contradicted(book: Book, rows: Sequence[Row]) -> list[Row]:
    best = _choices(book, rows, soft=False)
    differing = [row for row, token in zip(rows, best, strict=True) if token != row[2]]
    turned = _choices(book, differing, soft=True)
    wrong = [r for r, token in zip(differing, turned, strict=True) if token != r[2]]
    # Some servers count the last tokens of prompt and answer together.
    windowed = _choices(book, wrong, soft=True, windowed=True)
    if all(token == r[2] for r, token in zip(wrong, windowed, strict=True)):
        return []
    return wrong


def _choices(book: Book, rows: Sequence[Row], *, soft: bool, windowed: bool = False) -> list[int]:
    if not rows:
        return []
    counted = [(*prompt, *out)[-PENALTY_WINDOW:] if windowed else out for prompt, out, _, _ in rows]
    bias = [_penalty(some) for some in counted]
    if soft:
        for one, (_, _, token, _) in zip(bias, rows, strict=True):
            one[token] = one.get(token, 0.0) + book.session.control.margins.soft
    return book.favourite([(*prompt, *out) for prompt, out, _, _ in rows], bias)


def _explained(book: Book, wrong: Sequence[Row]) -> bool:
    """Whether relaxed counts explain every wrong token.

    Some servers miss the tokens of the newest rounds; SGLang counts the last token of each round.
    """
    for prompt, out, token, rounds in wrong[:_LOOKED_AT]:
        counted = [out[:k] for k in range(rounds.begun, len(out) + 1)]
        last = [out[k] for k in rounds.ends]
        counted += [tuple(last), tuple(last[:-1])] if last else []
        bias = [_penalty(some) for some in counted]
        for one in bias:
            one[token] = one.get(token, 0.0) + book.session.control.margins.soft
        if token not in book.favourite([(*prompt, *out)] * len(bias), bias):
            return False
    return True


def _as_if_none(book: Book, rows: Sequence[Row]) -> bool:
    """Whether every token is what no penalty at all would give."""
    contexts = [(*prompt, *out) for prompt, out, _, _ in rows]
    nudged = [{token: book.session.control.margins.soft} for _, _, token, _ in rows]
    found = book.favourite(contexts, nudged)
    return all(a == row[2] for a, row in zip(found, rows, strict=True))


def _penalty(out: Sequence[int]) -> dict[int, float]:
    return {token: -PENALTY * count for token, count in Counter(out).items()}


def _rounds_before(part: Completion) -> list[Rounds]:
    """Return for each token the rounds before its own; none where rounds are not visible."""
    if sum(part.rounds) != len(part.ids):
        return [Rounds(0, ())] * len(part.ids)
    found: list[Rounds] = []
    borders = [0]
    for size in part.rounds:
        ends = tuple(border - 1 for border in borders[1:])
        found += [Rounds(borders[-2] if len(borders) > 1 else 0, ends)] * size
        borders.append(borders[-1] + size)
    return found
