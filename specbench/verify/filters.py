"""Probes of top_p, of min_p, and of top_k together with top_p, by the tokens that they forbid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specbench.verify.session import Session
from specbench.verify.statistics.composition import (
    LEAST_DUE,
    Band,
    Composed,
    compose,
    find_band,
)
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.shaping import Filters, better_mass, support_violations
from specbench.verify.statistics.tokens import Ints, ScoredTokens
from specbench.verify.wire import Ask, Completion

_MIN_P = 0.25
_TOP_P = 0.5
# Two tokens that share the mass differ most between the two compositions.
BOTH = Filters(top_k=2, top_p=0.5)
_PREFILLED = 64
_REJECT = 1e-3


def run_top_p(session: Session) -> Evidence | None:
    """Count tokens that top_p forbids by far more mass than noise moves."""
    tokens = _filtered(session, top_p=_TOP_P)
    if tokens is None:
        return None
    bad = int(support_violations(tokens, Filters(top_p=_TOP_P), 0.0).sum())
    worst = float(better_mass(tokens).max(initial=0.0))
    how = f"={_TOP_P:g}: clearly likelier tokens hold up to {worst:.2f} of the mass"
    return _evidence(session, "top_p", len(tokens), bad, how)


def run_min_p(session: Session) -> Evidence | None:
    """Count tokens that min_p forbids: some verify paths are documented to ignore it."""
    tokens = _filtered(session, min_p=_MIN_P)
    if tokens is None:
        return None
    bad = int((tokens.regret > 1.0 - math.log(_MIN_P)).sum())
    worst = float(np.exp(-tokens.regret.max(initial=0.0)))
    how = f"={_MIN_P:g}: down to {worst:.1g} of the favourite's probability"
    found = _evidence(session, "min_p", len(tokens), bad, how)
    known = session.server.quirks.min_p_gap if session.server.speculative else ""
    return replace(found, gap=known if bad else "")


def run_both(session: Session) -> Evidence | None:
    """Compare how verification composes top_k with top_p with what this server's prefill does.

    Samplers compose them jointly or in sequence. Tokens that only the joint composition allows are
    counted in verified output, and in one-token requests at the very contexts that have such
    tokens.
    """
    count = session.budget.composed
    if not count:
        session.seen.not_tested.append("top_k together with top_p: from the default budget on")
        return None
    tokens, pairs = session.ask_and_score(_asks(session, count, BOTH.top_k, BOTH.top_p))
    rows = tokens.verified()
    band = find_band(rows, BOTH.top_k, BOTH.top_p)
    verified = compose(band, rows.rank[band.row])
    prefilled = _prefill(session, rows, pairs, band)
    if min(verified.due, prefilled.due) < LEAST_DUE:
        session.seen.not_tested.append(
            f"top_k together with top_p: the two compositions differ by {verified.due:.1f} tokens "
            f"here, {LEAST_DUE:g} are needed"
        )
        return None
    return _judge_both(session, verified, prefilled, len(rows))


def _judge_both(session: Session, verified: Composed, prefilled: Composed, n: int) -> Evidence:
    shown = (
        f"{verified.hits} of {verified.due:.1f} tokens that only the joint composition allows, "
        f"prefill {prefilled.hits} of {prefilled.due:.1f}"
    )
    found = Evidence(
        name="top_k with top_p",
        stage="both",
        method="tokens that only one composition of the filters allows",
        n_tokens=n,
        concurrency=session.abreast(session.budget.composed),
        temperature=1.0,
        note=shown,
        seen={
            "composition": f"verification drew {verified.hits} tokens that only the joint "
            f"composition allows where {verified.due:.1f} +- {math.sqrt(verified.due):.1f} are "
            f"due; this server's prefill drew {prefilled.hits} of {prefilled.due:.1f}"
        },
    )
    if prefilled.in_sequence:
        alike = verified.hits <= max(0.05 * verified.due, 2)
        fails = f"verification composes the filters jointly, prefill in sequence: {shown}"
        return replace(found, fails="" if alike else fails)
    if prefilled.p_joint < _REJECT:
        return replace(
            found, lacking=f"this server's prefill composes them in neither way: {shown}"
        )
    known = session.server.quirks.composition_gap if session.server.speculative else ""
    gap = known if verified.in_sequence else ""
    return replace(found, tests={"composition": verified.p_joint}, gap=gap)


def _prefill(
    session: Session, rows: ScoredTokens, pairs: Sequence[tuple[Ask, Completion]], band: Band
) -> Composed:
    """Draw one token by prefill at the contexts with the heaviest bands."""
    chosen = np.argsort(-band.mass, kind="stable")[:_PREFILLED]
    part = Band(band.row[chosen], band.mass[chosen], band.first[chosen], band.last[chosen])
    asks = []
    for row in part.row.tolist():
        ask, answer = pairs[int(rows.request[row])]
        ids = (*ask.ids, *answer.ids[: int(rows.position[row])])
        asks.append(replace(ask, ids=ids, max_tokens=1))
    drawn = [parts[0].ids[:1] for parts in session.ask(asks)]
    ranks: Ints = np.array(
        [_rank(rows.top_ids[row], ids) for row, ids in zip(part.row.tolist(), drawn, strict=True)],
        np.int64,
    )
    return compose(part, ranks)


def _rank(top: Ints, ids: Sequence[int]) -> int:
    hit = np.flatnonzero(top == ids[0]) if ids else np.zeros(0)
    return int(hit[0]) if len(hit) else len(top)


def _filtered(session: Session, *, top_p: float = 1.0, min_p: float = 0.0) -> ScoredTokens | None:
    """Sample under one filter and score; None where the budget has no probe of filters."""
    count = session.budget.filters
    if not count:
        session.seen.not_tested.append(f"top_p={top_p:g}, min_p={min_p:g}: not in this budget")
        return None
    asks = [replace(ask, min_p=min_p) for ask in _asks(session, count, 0, top_p)]
    return session.ask_and_score(asks)[0].verified()


def _asks(session: Session, count: int, top_k: int, top_p: float) -> list[Ask]:
    length = min(session.budget.length, 64)
    return [
        Ask(ids=ids, max_tokens=length, temperature=1.0, top_k=top_k, top_p=top_p, ignore_eos=True)
        for ids in session.next_prompts(count)
    ]


def _evidence(session: Session, name: str, n: int, bad: int, how: str) -> Evidence:
    return Evidence(
        name=name,
        stage=name,
        method="tokens that the filter forbids",
        n_tokens=n,
        concurrency=session.abreast(session.budget.filters),
        temperature=1.0,
        fails=f"{bad} of {n} tokens are forbidden by {name}{how}" if bad else "",
    )
