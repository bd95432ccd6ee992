"""Temperature 0 without scores: every token is compared with a one-token request at its context.

Where they disagree the margin is measured: by logit_bias if the server has it, else by the odds of
plain draws at temperature 1, so that a near tie and an error are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specbench.model.verdict import Witness
from specbench.stats.counts import poisson_upper
from specbench.verify.draws.book import Book, Ids
from specbench.verify.greedy import LEAST_LENGTH, LEVEL, WITNESSES, GreedyStage
from specbench.verify.statistics.evidence import Effect, Evidence
from specbench.verify.statistics.odds import (
    SOFT_TEMPERATURE,
    Odds,
    never_drawn_p,
    pooled_error_p,
)
from specbench.verify.wire import Ask, Completion

_BATCH = 16
_MOST_DRAWS = 128
NOTHING = Odds(0, 0)
# Disagreements of one stage that are measured: a broken server has hundreds, and a few convict.
_MEASURED = 24


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An emitted token that prefill's greedy choice contradicts, with what measures its margin.

    `margin` is in nat (a lower limit where `error`); `open` says that it could not be decided.
    """

    ask: Ask
    place: int
    context: Ids
    token: int
    best: int
    error: bool = False
    open: bool = False
    margin: float = 0.0
    odds: Odds = NOTHING


def stages_without_scores(book: Book) -> list[GreedyStage]:
    """Return the audits at concurrency 1 and C, of long prompts, and of the sampling kernel."""
    session, c = book.session, book.session.client.concurrency
    sizes = session.budget.draws
    batched = _batched(book)
    kernel = [replace(a, temperature=1.0, top_k=1) for a in batched[: sizes.kernel]]
    long = [
        Ask(ids=ids, max_tokens=sizes.length, ignore_eos=True)
        for ids in session.prompts.long[: sizes.long]
    ]
    plan = [
        GreedyStage("greedy, concurrency 1", "G1", tuple(_asks(book, sizes.alone, 0)), 1),
        GreedyStage(f"greedy, concurrency {c}", "GC", tuple(batched), c),
        GreedyStage("greedy, long prompts", "long", tuple(long), min(c, 4)),
        GreedyStage("top_k=1 (sampling kernel)", "K1", tuple(kernel), c, 1.0),
    ]
    return [stage for stage in plan if stage.asks]


def soak_without_scores(book: Book) -> GreedyStage | None:
    """Return the batched audit with other prompts, for the end of the run."""
    asks = _asks(book, book.session.budget.draws.soak, 11)
    c = book.session.client.concurrency
    return GreedyStage("greedy, at the end", "soak", tuple(asks), c) if asks else None


def run_audit(book: Book, stage: GreedyStage) -> Evidence:
    """Generate and audit one stage."""
    answers = book.session.ask(stage.asks, stage.concurrency)
    pairs = [(ask, parts[0]) for ask, parts in zip(stage.asks, answers, strict=True)]
    return judge_by_probes(book, stage, pairs)


def run_turns(book: Book) -> Evidence | None:
    """Continue finished answers on the cached prefix, and probe after the cache was emptied.

    An unflushed probe would read the fault's own cache and agree with it.
    """
    session, sizes = book.session, book.session.budget.draws
    firsts = _asks(book, sizes.turns, 5)
    if not firsts:
        return None
    if "flush" not in session.server.abilities:
        session.seen.not_tested.append(
            "second turns on a cached prefix: probes would read the same cache, which cannot be "
            "emptied"
        )
        return None
    answers = session.ask(firsts)
    second = tuple(
        Ask((*a.ids, *parts[0].ids, *session.prompts.turn), sizes.length // 2, ignore_eos=True)
        for a, parts in zip(firsts, answers, strict=True)
    )
    c = session.client.concurrency
    return run_audit(book, GreedyStage("greedy, second turn on a cached prefix", "turn", second, c))


def run_mixed(book: Book) -> Evidence | None:
    """Audit greedy requests that share their batches with sampled ones."""
    session = book.session
    greedy = _asks(book, session.budget.draws.mixed, 7)
    if not greedy:
        return None
    hot = [replace(a, temperature=1.0, ignore_eos=True) for a in greedy]
    asks = [ask for pair in zip(greedy, hot, strict=True) for ask in pair]
    answers = session.ask(asks)
    pairs = [(a, p[0]) for a, p in zip(asks, answers, strict=True) if a.temperature == 0.0]
    stage = GreedyStage(
        "greedy, in batches with sampled requests",
        "mixed",
        tuple(greedy),
        session.client.concurrency,
    )
    return replace(judge_by_probes(book, stage, pairs), concurrency=session.abreast(len(asks)))


def judge_by_probes(
    book: Book, stage: GreedyStage, pairs: Sequence[tuple[Ask, Completion]]
) -> Evidence:
    """Probe every token but the first of each answer, and measure the disagreements."""
    contexts = [
        (ask, place, (*ask.ids, *part.ids[:place]), part.ids[place])
        for ask, part in pairs
        for place in range(1, len(part.ids))
    ]
    book.session.flush()
    favourites = book.favourite([context for _, _, context, _ in contexts])
    found = [
        Disagreement(ask, place, context, token, best)
        for (ask, place, context, token), best in zip(contexts, favourites, strict=True)
        if token != best
    ]
    measured = [_measure(book, one) for one in found[:_MEASURED]]
    if stage.temperature == 0.0:
        book.paths += [((*ask.ids, *part.ids), len(ask.ids)) for ask, part in pairs]
    return _evidence(book, stage, len(contexts), len(found), measured)


def _measure(book: Book, one: Disagreement) -> Disagreement:
    """Decide between a near tie and an error, by bias or by odds; near ties tell the noise too."""
    if "logit_bias" in book.session.server.abilities:
        measured = _by_bias(book, one)
    else:
        measured = _by_odds(book, one)
    if not measured.error and len(book.cold) < 2 * _MEASURED:
        like = Ask((), 1, temperature=SOFT_TEMPERATURE)
        book.cold.append(_odds(one, book.draw([one.context], [_BATCH], like)[0]))
    return measured


def _by_bias(book: Book, one: Disagreement) -> Disagreement:
    margins = book.session.control.margins
    for bias in (margins.soft, margins.hard, 4 * margins.hard):
        (best,) = book.favourite([one.context], [{one.token: bias}])
        if best == one.token:
            break
        one = replace(one, margin=bias)
    (again,) = book.favourite([one.context], [{one.token: 0.0}])
    error = one.margin >= margins.hard and again != one.token
    return replace(one, error=error, open=not error and one.margin > 0.0)


def _by_odds(book: Book, one: Disagreement) -> Disagreement:
    odds = NOTHING
    for _ in range(_MOST_DRAWS // _BATCH):
        drawn = book.draw([one.context], [_BATCH], Ask((), 1, temperature=1.0))[0]
        more = _odds(one, drawn)
        odds = Odds(odds.emitted + more.emitted, odds.either + more.either)
        if odds.decision != "open":
            break
    return replace(
        one,
        odds=odds,
        error=odds.decision == "error",
        open=odds.decision == "open",
        margin=max(odds.margin_nat, 0.0),
    )


def _odds(one: Disagreement, drawn: Sequence[int]) -> Odds:
    emitted = sum(t == one.token for t in drawn)
    return Odds(emitted, emitted + sum(t == one.best for t in drawn))


def _evidence(
    book: Book, stage: GreedyStage, n: int, disagreed: int, measured: Sequence[Disagreement]
) -> Evidence:
    session = book.session
    errors = [one for one in measured if one.error]
    share = 100 * len(errors) / max(n, 1)
    upper = 100 * poisson_upper(len(errors), LEVEL) / n if n else 100.0
    pooled = pooled_error_p([one.odds for one in measured])
    open_ = sum(one.open for one in measured)
    biased = "logit_bias" in session.server.abilities
    how = "logit_bias" if biased else "the odds of plain draws"
    return Evidence(
        name=stage.name,
        stage=stage.stage,
        method=f"one-token requests at every context; margins by {how}",
        n_tokens=n,
        concurrency=min(stage.concurrency, len(stage.asks)),
        temperature=stage.temperature,
        tests={} if pooled is None else {"odds of disagreements": pooled},
        effects=(Effect("garbage_pct", share, 0.0, upper),),
        witnesses=tuple(_witness(book, stage, one) for one in errors[:WITNESSES]),
        lacking=_lacking(n, open_, biased=biased),
        note=f"{disagreed} of {n} tokens are not prefill's choice, "
        f"{len(measured) - len(errors) - open_} near ties, {len(errors)} errors, {open_} undecided",
        seen={
            "witness": f"{disagreed} of {n} tokens are not prefill's choice, {len(errors)} of "
            f"{len(measured)} measured ones by far more than a near tie",
            "odds of disagreements": f"{disagreed} of {n} tokens are not prefill's choice, and "
            "plain draws at these contexts hardly ever give them",
        },
    )


def _lacking(n: int, undecided: int, *, biased: bool) -> str:
    if n == 0:
        return "no token came from verification"
    # Flat contexts give few draws of either token: one such is no reason for doubt.
    if biased and undecided:
        return f"{undecided} disagreements of 1 to 3 nat: record a reference to tell noise"
    return ""


def _witness(book: Book, stage: GreedyStage, one: Disagreement) -> Witness:
    probe = Ask(ids=one.context, max_tokens=1, ignore_eos=True)
    return Witness(
        prompt_ids=list(one.ask.ids),
        position=one.place,
        token=one.token,
        target_argmax=one.best,
        margin_nat=round(one.margin, 2),
        curl=book.session.curl(probe),
        shows=book.session.shows(one.ask, one.place, min(stage.concurrency, len(stage.asks))),
        stage=stage.stage,
    )


def soft_evidence(book: Book) -> Evidence | None:
    """Count disagreements whose emitted token never comes at a quarter of the temperature."""
    never, p = never_drawn_p(book.cold)
    if p is None:
        return None
    shown = f"{never} of {len(book.cold)} emitted tokens never came at T={SOFT_TEMPERATURE:g}"
    return Evidence(
        name="greedy, near ties drawn cold",
        stage="gap",
        method="draws at a quarter of the temperature where greedy output and probe disagree",
        n_tokens=sum(o.either for o in book.cold),
        concurrency=book.session.client.concurrency,
        temperature=0.0,
        tests={},
        lacking=f"{shown}: drift of the verify rows, or noise; a reference would tell"
        if p < 1e-5
        else "",
        note=shown,
    )


def _asks(book: Book, count: int, offset: int) -> list[Ask]:
    """Return natural prompts that run their full length, and short ones that end by themselves."""
    session = book.session
    return [
        Ask(ids=ids, max_tokens=session.budget.draws.length, ignore_eos=k % 2 == 0)
        for k, ids in enumerate(session.prompts.mixed(count, offset))
    ]


def _batched(book: Book) -> list[Ask]:
    """Return enough requests to fill the concurrency, within an eighth of the budget."""
    session, sizes = book.session, book.session.budget.draws
    c = session.client.concurrency
    count = max(sizes.batched, min(c, sizes.limit // (16 * LEAST_LENGTH)))
    if count < c:
        session.seen.not_tested.append(
            f"batches of more than {count} requests: the budget has tokens for no more"
        )
    asks = _asks(book, count, sizes.alone)
    if count == sizes.batched:
        return asks
    length = max(sizes.batched * sizes.length // count, LEAST_LENGTH)
    return [replace(ask, max_tokens=min(length, sizes.length)) for ask in asks]
