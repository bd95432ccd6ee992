"""Stages whose every token has one right answer: temperature 0, and top_k = 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specbench.model.verdict import Witness
from specbench.verify.session import Session
from specbench.verify.statistics.evidence import Effect, Evidence
from specbench.verify.statistics.logprob_gap import RegretAudit, audit, excess_over_control
from specbench.verify.statistics.tokens import Floats, ScoredTokens
from specbench.verify.wire import Ask, Completion

LEVEL = 0.99
# A handful of confirmed witnesses proves as much as a hundred.
WITNESSES = 3
# Without a reference, doubtful tokens above this share (lower limit, percent) are no noise: even
# heavy tails (router flips of a mixture of experts) were simulated well below it.
DOUBTFUL_PCT = 0.25
# Tokens a request below which verification is hardly reached.
LEAST_LENGTH = 24


@dataclass(frozen=True, slots=True)
class GreedyStage:
    """One regret audit: what is asked, at which concurrency; `stage` is its diagnosis column."""

    name: str
    stage: str
    asks: tuple[Ask, ...]
    concurrency: int
    temperature: float = 0.0


def stages_at_start(session: Session) -> list[GreedyStage]:
    """Return the audits at concurrency 1 and C, of long prompts, and of the sampling kernel."""
    budget, c = session.budget, session.client.concurrency
    alone = _asks(session, budget.alone, 0)
    batched = _batched(session)
    kernel = [replace(a, temperature=1.0, top_k=1) for a in _asks(session, budget.kernel, 3)]
    long = [
        Ask(ids=ids, max_tokens=min(budget.length, 96), ignore_eos=True)
        for ids in session.prompts.long[: budget.long]
    ]
    plan = [
        GreedyStage("greedy, concurrency 1", "G1", tuple(alone), 1),
        GreedyStage(f"greedy, concurrency {c}", "GC", tuple(batched), c),
        GreedyStage("greedy, long prompts", "long", tuple(long), min(c, 4)),
        GreedyStage("top_k=1 (sampling kernel)", "K1", tuple(kernel), c, 1.0),
    ]
    return [stage for stage in plan if stage.asks]


def _batched(session: Session) -> list[Ask]:
    """Return enough requests to fill the concurrency asked for, shorter ones where these are many.

    An eighth of the budget is the most that they may take.
    """
    budget, c = session.budget, session.client.concurrency
    if c <= budget.batched:
        return _asks(session, budget.batched, budget.alone)
    count = min(c, budget.limit // (8 * LEAST_LENGTH))
    if count < c:
        session.seen.not_tested.append(
            f"batches of more than {count} requests: the budget has tokens for no more"
        )
    length = max(budget.batched * budget.length * 3 // (2 * count), LEAST_LENGTH)
    asks = _asks(session, count, budget.alone)
    return [replace(ask, max_tokens=min(length, budget.length)) for ask in asks]


def soak(session: Session) -> GreedyStage | None:
    """Return the batched audit again, for the end of the run: faults with a late onset."""
    asks = _asks(session, session.budget.soak, 11)
    c = session.client.concurrency
    return GreedyStage("greedy, at the end", "soak", tuple(asks), c) if asks else None


def run_greedy(session: Session, stage: GreedyStage) -> Evidence:
    """Generate, score and audit one stage; candidates for witnesses are confirmed afresh."""
    tokens, pairs = session.ask_and_score(stage.asks, stage.concurrency)
    return judge_greedy(session, stage, tokens, pairs)


def run_turns(session: Session) -> Evidence | None:
    """Continue finished answers on the cached prefix, unflushed, and score after a flush.

    A prefix cache that holds KV which generation wrote wrongly shows in the second turn only.
    """
    firsts = _asks(session, session.budget.turns, 5)
    if not firsts:
        return None
    answers = session.ask(firsts)
    second = [
        Ask(
            ids=(*ask.ids, *parts[0].ids, *session.prompts.turn),
            max_tokens=min(session.budget.length, 64),
            ignore_eos=True,
        )
        for ask, parts in zip(firsts, answers, strict=True)
    ]
    c = session.client.concurrency
    stage = GreedyStage("greedy, second turn on a cached prefix", "turn", tuple(second), c)
    tokens, pairs = session.ask_and_score(stage.asks, c)
    found = judge_greedy(session, stage, tokens, pairs)
    return replace(found, note=_cache_note(pairs))


def _cache_note(pairs: Sequence[tuple[Ask, Completion]]) -> str:
    if all(part.cached_tokens is None for _, part in pairs):
        return "the server does not say whether second turns hit the prefix cache"
    cached = sum((part.cached_tokens or 0) > len(ask.ids) // 2 for ask, part in pairs)
    return f"{cached} of {len(pairs)} second turns hit the prefix cache"


def run_mixed(session: Session) -> Evidence | None:
    """Audit greedy requests that share their batches with sampled ones.

    One sampled request sends a whole batch through the sampling kernel, so this is another path
    for the same right answer.
    """
    if not session.budget.mixed:
        return None
    greedy = _asks(session, session.budget.mixed, 7)
    hot = [replace(a, temperature=1.0, ignore_eos=True) for a in greedy]
    asks = [ask for pair in zip(greedy, hot, strict=True) for ask in pair]
    answers = session.ask(asks)
    pairs = [(a, p[0]) for a, p in zip(asks, answers, strict=True) if a.temperature == 0.0]
    c = session.client.concurrency
    stage = GreedyStage("greedy, in batches with sampled requests", "mixed", tuple(greedy), c)
    found = judge_greedy(session, stage, session.score(pairs), pairs)
    return replace(found, concurrency=session.abreast(len(asks)))


def judge_greedy(
    session: Session,
    stage: GreedyStage,
    tokens: ScoredTokens,
    pairs: Sequence[tuple[Ask, Completion]],
) -> Evidence:
    """Turn a scored table into evidence: margins, witnesses, and the share of doubtful tokens."""
    verified = tokens.verified()
    session.seen.greedy.append(verified)
    found = audit(verified, session.control.margins)
    witnesses = confirm(session, verified, pairs, found.hard, stage)
    tests, seen = {}, {"witness": _wrong(session, found)}
    control = session.control.regrets
    if control is not None and len(verified):
        tests["doubtful tokens above control"] = excess_over_control(
            verified.regret, control, session.control.margins.soft
        )
        seen["doubtful tokens above control"] = _doubted(session, verified, control)
    return Evidence(
        name=stage.name,
        stage=stage.stage,
        method="regret audit against the server's own prefill",
        n_tokens=len(verified),
        concurrency=min(stage.concurrency, len(stage.asks)),
        temperature=stage.temperature,
        tests=tests,
        effects=(_garbage(found), _doubtful(session, found)),
        witnesses=tuple(witnesses),
        profile=_profile(verified, found),
        fails=_too_many_doubtful(session, found),
        lacking=_unconfirmed(session, found, witnesses, verified),
        note=f"largest regret {found.worst:.2f} nat, 99 % quantile {found.q99:.3f}",
        seen=seen,
    )


def confirm(
    session: Session,
    tokens: ScoredTokens,
    pairs: Sequence[tuple[Ask, Completion]],
    rows: Sequence[int] | np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    stage: GreedyStage,
) -> list[Witness]:
    """Confirm up to WITNESSES of the rows, the widest margins first."""
    order = sorted(map(int, rows), key=lambda r: -float(tokens.regret[r]))
    found = []
    for row in order[: 3 * WITNESSES]:
        pair = pairs[int(tokens.request[row])]
        position = int(tokens.position[row])
        witness = session.contradiction(
            pair, position, session.control.margins.soft, stage.stage, stage.concurrency
        )
        if witness is not None:
            found.append(witness)
        if len(found) == WITNESSES:
            break
    return found


def _asks(session: Session, count: int, offset: int) -> list[Ask]:
    """Return natural prompts that run their full length, and short ones that end by themselves.

    Where there are no counters a request by default, the chunks of a stream show the rounds.
    """
    stream = session.server.quirks.streams_show_rounds
    return [
        Ask(ids=ids, max_tokens=session.budget.length, ignore_eos=k % 2 == 0, stream=stream)
        for k, ids in enumerate(session.prompts.mixed(count, offset))
    ]


def _garbage(found: RegretAudit) -> Effect:
    value = 100 * len(found.hard) / max(found.n, 1)
    return Effect("garbage_pct", value, 0.0, found.garbage_upper_pct(LEVEL))


def _doubtful(session: Session, found: RegretAudit) -> Effect:
    value = 100 * len(found.soft) / max(found.n, 1)
    low, high = found.soft_lower_pct(LEVEL), found.soft_upper_pct(LEVEL)
    # The bound after no event at all depends on n only and is judged over all stages together.
    margin = session.budget.soft_pct if len(found.soft) else None
    return Effect("doubtful_pct", value, low, high, margin)


def _wrong(session: Session, found: RegretAudit) -> str:
    return (
        f"{len(found.hard)} of {found.n} tokens lie more than {session.control.margins.hard:g} nat "
        "below the target's own choice, where numerical noise puts none"
    )


def _doubted(session: Session, verified: ScoredTokens, control: Floats) -> str:
    soft = session.control.margins.soft
    return (
        f"{int((verified.regret > soft).sum())} of {len(verified)} tokens lie more than {soft:.2g} "
        f"nat below the target's own choice, where the plain server has "
        f"{int((control > soft).sum())} of {len(control)}"
    )


def _too_many_doubtful(session: Session, found: RegretAudit) -> str:
    """Say so if doubtful tokens are too frequent for noise; with a reference a test decides."""
    if session.control.regrets is not None or len(found.soft) < WITNESSES:
        return ""
    if found.soft_lower_pct(LEVEL) < DOUBTFUL_PCT:
        return ""
    return (
        f"{len(found.soft)} of {found.n} tokens lie {session.control.margins.soft:g} to "
        f"{session.control.margins.hard:g} nat below the target's favourite"
    )


def _unconfirmed(
    session: Session, found: RegretAudit, witnesses: Sequence[Witness], verified: ScoredTokens
) -> str:
    if len(verified) == 0:
        return "no token came from verification"
    if len(found.hard) and not witnesses:
        return f"{len(found.hard)} tokens far from the target's favourite could not be confirmed"
    margins = session.control.margins
    if len(found.soft) and session.control.regrets is None:
        return (
            f"{len(found.soft)} tokens lie {margins.soft:g} to {margins.hard:g} nat below the "
            "favourite; record a reference to tell noise from a fault"
        )
    return ""


def _profile(tokens: ScoredTokens, found: RegretAudit) -> dict[int, float]:
    """Count hard regrets by place in the round, where the stream shows rounds."""
    places = tokens.round_index[found.hard]
    return {int(k): float((places == k).sum()) for k in np.unique(places[places >= 0])}
