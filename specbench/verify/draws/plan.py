"""The stages of the battery without scores, in order: cheap and decisive ones first."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.verify import conformance
from specbench.verify.draws.book import Book
from specbench.verify.draws.contexts import find_nodes
from specbench.verify.draws.filters import run_filter
from specbench.verify.draws.greedy import (
    run_audit,
    run_mixed,
    run_turns,
    soak_without_scores,
    soft_evidence,
    stages_without_scores,
)
from specbench.verify.draws.parameters import run_penalties, run_stops
from specbench.verify.draws.sampled import run_sampled
from specbench.verify.draws.text import run_text
from specbench.verify.greedy import GreedyStage
from specbench.verify.options import HOT, S1
from specbench.verify.session import Session
from specbench.verify.stage import Stage, plain_stage
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.sampled import label
from specbench.verify.statistics.shaping import Filters

_WARM = Filters(temperature=0.6)
_FILTERS = (
    Filters(top_p=0.5),
    Filters(top_p=0.7),
    Filters(min_p=0.2),
    Filters(min_p=0.4),
    Filters(temperature=0.6, top_p=0.7),
)
UNTESTED = (
    "top_k together with top_p: their orders differ at the edges only, which draws cannot tell",
    "log-probabilities in answers: the server gives none",
    "penalties together with a temperature, and different parameters side by side",
)


def draws_stages(session: Session) -> list[Stage]:
    """Return the stages; all share one book of probes, paths and contexts."""
    book, sizes = Book(session), session.budget.draws
    session.seen.not_tested += [text for text in UNTESTED if text not in session.seen.not_tested]
    found = [
        plain_stage(session, "length limits", conformance.run_lengths, 90),
        plain_stage(session, "logit_bias", conformance.run_bias, 64),
        _stage("stop tokens", lambda: run_stops(book), 12 * sizes.length),
    ]
    found += [_audit(book, stage) for stage in stages_without_scores(book)]
    found += [
        _stage("second turn", lambda: run_turns(book), 2 * sizes.turns * sizes.length),
        _stage("mixed batches", lambda: run_mixed(book), 3 * sizes.mixed * sizes.length),
        _stage(
            "frequency penalty", lambda: run_penalties(book), 3 * sizes.penalties * sizes.length
        ),
        _stage("near ties drawn cold", lambda: soft_evidence(book), 0),
        _stage("text of the answers", lambda: run_text(book), 0),
    ]
    for filters, waves in ((S1, sizes.one), (HOT, sizes.hot), (_WARM, sizes.warm)):
        if waves:
            found.append(_sampled(book, filters, waves))
        else:
            session.seen.not_tested.append(f"{label(filters)}: from the default budget on")
    found += [_filtered(book, filters) for filters in _FILTERS]
    if session.own is not None:
        found.append(_own(book, session.own, sizes.warm or sizes.one))
    last = soak_without_scores(book)
    return [*found, _audit(book, last)] if last is not None else found


def _stage(name: str, run: object, cost: int) -> Stage:
    return Stage(name, run, run, cost)  # type: ignore[arg-type]


def _audit(book: Book, stage: GreedyStage) -> Stage:
    cost = 2 * sum(ask.max_tokens for ask in stage.asks)

    def run() -> Evidence:
        return run_audit(book, stage)

    return Stage(stage.name, run, run, cost, top_k=any(ask.top_k for ask in stage.asks))


def _sampled(book: Book, filters: Filters, waves: Sequence[int]) -> Stage:
    def run() -> Evidence | None:
        if not book.nodes:
            book.nodes = find_nodes(book)
        return run_sampled(book, filters, waves)

    def again() -> Evidence | None:
        return run_sampled(book, filters, list(waves[:1]) * book.session.budget.draws.again)

    return Stage(f"sampled {label(filters)}", run, again, 0, top_k=bool(filters.top_k))


def _filtered(book: Book, filters: Filters) -> Stage:
    def run() -> Evidence | None:
        return run_filter(book, filters) if book.nodes else None

    return Stage(f"{label(filters)} in draws", run, run)


def _own(book: Book, own: Filters, waves: Sequence[int]) -> Stage:
    if own.top_k or own.top_p < 1 or own.min_p:
        return _filtered(book, own)
    return _sampled(book, own, waves)
