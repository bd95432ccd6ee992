"""Stages at temperature above 0: score tests, frozen contexts, and shared coins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specbench.model.verdict import Witness
from specbench.verify.handshake import RANKS
from specbench.verify.options import S1
from specbench.verify.session import Session
from specbench.verify.statistics import fixed_contexts
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.independence import agreement
from specbench.verify.statistics.production import combined, core
from specbench.verify.statistics.sampled import examine, impossible, label
from specbench.verify.statistics.scores import Score
from specbench.verify.statistics.shaping import Filters, shape
from specbench.verify.statistics.tokens import Bools, ScoredTokens, concatenate, empty
from specbench.verify.wire import Ask, Completion

ALPHA = 0.004
_DRAWS_PER_CALL = 16
# Requests that are sent and scored before the next are planned.
_WAVE = 64
# Two choices a step keep equal prompts together for long enough to compare them.
_TWO = Filters(top_k=2)


@dataclass(slots=True)
class Sample:
    """Verified tokens of one configuration; `pairs[tokens.request[i]]` is token i's request."""

    filters: Filters
    tokens: ScoredTokens
    pairs: list[tuple[Ask, Completion]] = field(default_factory=list)
    witnesses: list[Witness] = field(default_factory=list)

    def add(self, other: Sample) -> None:
        """Append another sample of the same configuration."""
        moved = replace(other.tokens, request=other.tokens.request + len(self.pairs))
        self.tokens = concatenate([self.tokens, moved])
        self.pairs += other.pairs
        self.witnesses += other.witnesses


def draw_sample(session: Session, filters: Filters, count: int) -> Sample:
    """Sample and score about `count` verified tokens; confirm any impossible one as a witness."""
    sample = Sample(filters, empty(RANKS))
    length = session.budget.length
    price = session.price * length
    while len(sample.tokens) < count and session.left >= price:
        missing = -(-(count - len(sample.tokens)) // (length - 1))
        wave = min(missing, max(_WAVE, session.client.concurrency), session.left // price)
        tokens, pairs = session.ask_and_score(_asks(session, filters, wave))
        verified = tokens.verified()
        if len(verified) == 0:
            break
        witnesses = _impossible(session, verified, pairs, filters)
        sample.add(Sample(filters, verified, pairs, witnesses))
    return sample


def examine_sample(session: Session, sample: Sample, level: float | None = None) -> Evidence:
    """Run all score tests of one configuration; `level` of the intervals, or the budget's."""
    evidence, _ = _examine(session, sample, level)
    own = sample.filters == session.own
    return replace(
        evidence,
        name=title(session, sample.filters),
        stage="own" if own else evidence.stage,
        concurrency=session.client.concurrency,
        witnesses=tuple(sample.witnesses[:3]),
        lacking="" if len(sample.tokens) else "no token came from verification",
        gap=_min_p_gap(session, sample, evidence) if own and sample.filters.min_p else "",
    )


def _examine(
    session: Session, sample: Sample, level: float | None = None
) -> tuple[Evidence, Bools]:
    margins = session.budget.margins
    return examine(
        sample.tokens,
        sample.filters,
        margins if level is None else replace(margins, level=level),
        vocab=session.server.vocab,
        stop_ids=frozenset(session.seen.stop_ids),
        alpha=ALPHA,
        seed=session.seed,
    )


def title(session: Session, filters: Filters) -> str:
    """Name a sampled configuration; the user's own is marked."""
    return f"sampled {label(filters)}" + (" (yours)" if filters == session.own else "")


def run_fixed_contexts(
    session: Session, filters: Filters, source: Sample, size: tuple[int, int]
) -> Evidence | None:
    """Sample the open token of frozen contexts by verify; compare with what prefill says.

    At temperature 1 against the known distribution; under other filters against one-token
    requests, which need no model of the filters; of several filters only what all compositions
    keep is compared. `size` is contexts x draws. None where no context fits.
    """
    count, draws = size
    inside = core(source.tokens, filters) if combined(filters) else None
    usable = None if inside is None else inside.sum(axis=1) > 1
    contexts = fixed_contexts.find_contexts(source.tokens, count, usable=usable) if count else []
    if not contexts:
        return None
    prefixes = [_prefix(source, context) for context in contexts]
    verified = _open_tokens(session, contexts, prefixes, filters, draws)
    if filters == S1:
        result = fixed_contexts.one_sample(contexts, verified)
    else:
        prefilled = _prefilled(session, contexts, prefixes, filters, draws)
        if inside is not None:
            cores = [set(c.ids[inside[c.row]].tolist()) for c in contexts]
            verified, prefilled = _within(verified, cores), _within(prefilled, cores)
        result = fixed_contexts.two_sample(verified, prefilled)
    tests = {} if result.p is None else {"frozen contexts": result.p}
    worst, tail = result.worst
    return Evidence(
        name=_frozen_title(session, filters),
        stage="frozen",
        method="one-sample chi-squared" if filters == S1 else "two-sample chi-squared",
        n_tokens=result.n,
        concurrency=session.client.concurrency,
        temperature=filters.temperature,
        tests=tests,
        note=f"{len(contexts)} contexts, chi2 {result.statistic:.0f} on {result.df}, "
        f"smallest single p {tail:.1e} (context {worst})",
        seen={"frozen contexts": result.shift},
        lacking="" if tests else "too few draws reached the open token",
    )


def run_coins(session: Session) -> Evidence | None:
    """Send equal prompts side by side: do requests with equal prefixes agree too often."""
    requests, length = session.budget.coins
    prompt = session.prompts.chat[session.rotation % len(session.prompts.chat)]
    session.rotation += 1
    ask = Ask(ids=prompt, max_tokens=length, temperature=1.0, top_k=_TWO.top_k, ignore_eos=True)
    together = min(requests, max(session.client.concurrency, 2))
    tokens, _ = session.ask_and_score([ask] * requests, together)
    score = agreement(tokens, shape(tokens, _TWO))
    if float(score.variance.sum()) < 5 or score.p is None:
        session.seen.not_tested.append(
            "coins shared between requests: equal prompts parted too early to tell"
        )
        return None
    return Evidence(
        name="independent coins",
        stage="coins",
        method="agreement of equal prompts side by side",
        n_tokens=len(tokens),
        concurrency=together,
        temperature=1.0,
        tests={"agreement": score.p},
        note=f"Z {score.z:+.1f}",
        seen={"agreement": _agreed(score)},
    )


def _frozen_title(session: Session, filters: Filters) -> str:
    if filters == session.own:
        return f"frozen contexts {label(filters)} (yours)"
    return f"frozen contexts T={filters.temperature:g}"


def _min_p_gap(session: Session, sample: Sample, found: Evidence) -> str:
    """Name the documented gap if it explains all: without min_p the sample is as it should be."""
    plain = Sample(replace(sample.filters, min_p=0.0), sample.tokens)
    if min(found.tests.values(), default=1.0) > ALPHA and not sample.witnesses:
        return ""
    other, bad = _examine(session, plain)
    explained = min(other.tests.values(), default=1.0) > ALPHA and not bad.any()
    return session.server.quirks.min_p_gap if explained and session.server.speculative else ""


def _agreed(score: Score) -> str:
    spread = float(score.variance.sum()) ** 0.5
    return (
        "equal prompts side by side drew the same token in "
        f"{float(score.difference.sum()):+.0f} pairs more than chance, where 0 +- {spread:.0f} are "
        "due with a coin for every request"
    )


def _asks(session: Session, filters: Filters, count: int) -> list[Ask]:
    offset = session.rotation
    session.rotation += count
    return [
        Ask(
            ids=ids,
            max_tokens=session.budget.length,
            temperature=filters.temperature,
            top_k=filters.top_k,
            top_p=filters.top_p,
            min_p=filters.min_p,
            ignore_eos=k % 2 == 0,
            stream=True,
        )
        for k, ids in enumerate(session.prompts.mixed(count, offset))
    ]


def _impossible(
    session: Session,
    tokens: ScoredTokens,
    pairs: Sequence[tuple[Ask, Completion]],
    filters: Filters,
) -> list[Witness]:
    """Confirm tokens that the filter forbids: a second prefill must forbid them again."""
    found = []
    bad = impossible(tokens, filters).nonzero()[0]
    for row in sorted(bad.tolist(), key=lambda r: -float(tokens.regret[r]))[:3]:
        pair = pairs[int(tokens.request[row])]
        place = int(tokens.position[row])
        witness = session.contradiction(pair, place, session.control.margins.soft, "support")
        if witness is not None:
            found.append(witness)
    return found


def _prefix(source: Sample, context: fixed_contexts.Context) -> tuple[int, ...]:
    """Return prompt and output up to, and without, the certain token."""
    ask, part = source.pairs[context.request]
    return (*ask.ids, *part.ids[: context.position])


def _open_tokens(
    session: Session,
    contexts: Sequence[fixed_contexts.Context],
    prefixes: Sequence[tuple[int, ...]],
    filters: Filters,
    draws: int,
) -> list[list[int]]:
    """Return, for each context, the verify-sampled tokens after the certain one."""
    asks = [a for prefix in prefixes for a in _draws(session, prefix, 2, filters, draws)]
    answers = session.ask(asks)
    per_context = len(asks) // len(contexts)
    return [
        [
            part.ids[1]
            for parts in answers[k * per_context : (k + 1) * per_context]
            for part in parts
            if len(part.ids) > 1 and part.ids[0] == context.certain
        ]
        for k, context in enumerate(contexts)
    ]


def _prefilled(
    session: Session,
    contexts: Sequence[fixed_contexts.Context],
    prefixes: Sequence[tuple[int, ...]],
    filters: Filters,
    draws: int,
) -> list[list[int]]:
    """Return, for each context, prefill-sampled tokens: one-token requests never verify."""
    asks = [
        a
        for context, prefix in zip(contexts, prefixes, strict=True)
        for a in _draws(session, (*prefix, context.certain), 1, filters, draws)
    ]
    answers = session.ask(asks)
    per_context = len(asks) // len(contexts)
    return [
        [
            part.ids[0]
            for parts in answers[k * per_context : (k + 1) * per_context]
            for part in parts
            if part.ids
        ]
        for k in range(len(contexts))
    ]


def _within(drawn: Sequence[Sequence[int]], cores: Sequence[set[int]]) -> list[list[int]]:
    return [[t for t in some if t in inside] for some, inside in zip(drawn, cores, strict=True)]


def _draws(
    session: Session, prefix: tuple[int, ...], length: int, filters: Filters, draws: int
) -> list[Ask]:
    per_call = _DRAWS_PER_CALL if "n" in session.server.abilities else 1
    ask = Ask(
        ids=prefix,
        max_tokens=length,
        temperature=filters.temperature,
        top_k=filters.top_k,
        top_p=filters.top_p,
        min_p=filters.min_p,
        ignore_eos=True,
        n=per_call,
    )
    return [ask] * max(draws // per_call, 1)
