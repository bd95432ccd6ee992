"""Runs the stages of a battery, then what is suspicious once more, and what is too wide further."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from specbench.errors import ServiceError
from specbench.verify import determinism
from specbench.verify.client import Refused
from specbench.verify.conclusion import Conclusion
from specbench.verify.events import StageFinished, StageStarted, VerifyEvent, VerifyNotice
from specbench.verify.session import Session, refusal
from specbench.verify.stage import Stage
from specbench.verify.statistics.counters import accept_len
from specbench.verify.statistics.coverage import lacking, measure
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.verdict import ErrorRates, judge, suspicious

_GREEDY = frozenset({"G1", "GC", "K1", "long", "turn", "mixed", "soak"})
# A concurrency counts as tested if the server really ran this share of it at some time.
REACHED = 0.8
# Tokens a verify step below which next to no draft was accepted; plain decoding is 1.
DEAD_DRAFT = 1.05
_DEAD = "the draft is as good as dead"
# About how many p-values a default run has, for decisions before its end.
_EXPECTED_TESTS = 50
_SAMPLED = frozenset({"S1", "HOT", "T!=1", "frozen", "coins", "own"})


def run_stages(
    session: Session, conclusion: Conclusion, planned: Sequence[Stage]
) -> Iterator[VerifyEvent]:
    """Run every stage, then what is suspicious once more; a dead server ends the run early."""
    done: list[tuple[Stage, Evidence]] = []
    place, start = "the first stage", time.monotonic()
    try:
        for stage in planned:
            place = stage.name
            if stage.top_k and session.server.quirks.fragile_top_k:
                # It may die of this stage: what was found before must not stay unconfirmed.
                yield from _confirm(session, done)
            yield StageStarted(stage=place)
            evidence = _attempt(session, stage)
            if evidence is not None:
                done.append((stage, evidence))
            yield _finished(session, stage.name, evidence)
            if session.server.level == "draws" and evidence is not None:
                # Draws are dear: what is suspicious is confirmed while there are tokens for it.
                yield from _confirm_newest(session, done)
            if len(done) == 1 or (evidence is not None and evidence.stage == "GC"):
                yield from _soon_known(session, conclusion, time.monotonic() - start)
            if conclusion.options.fail_fast and (yield from _damned(session, done)):
                session.seen.not_tested.append(f"everything after {stage.name}: fail-fast")
                break
        else:
            place = "the stages that ask for fresh or more requests"
            yield from _confirm(session, done)
            yield from _refine(session, done)
            if not session.to_replay and session.prompts.chat:
                yield from _determinism(session, conclusion)
    except ServiceError as error:
        conclusion.cut_short = True
        conclusion.essential.append(f"the battery was cut short in {place}: {error.what}")
    conclusion.evidences = [_covered(session, evidence) for _, evidence in done]


def _soon_known(session: Session, conclusion: Conclusion, seconds: float) -> Iterator[VerifyEvent]:
    """Say how long the rest will take, and name a draft that is dead before tokens go into it.

    Said after the first stage, and again after the first full batches: only they show the speed.
    """
    spent, limit = session.progress
    rate = spent / max(seconds, 1e-3)
    if not session.to_replay and spent:
        minutes = (limit - spent) / rate / 60
        yield VerifyNotice(
            text=f"{rate:.0f} tokens a second so far: at most {minutes:.1f} minutes to come"
        )
    mean = accept_len(session.seen.greedy_counters)
    named = any(note.startswith(_DEAD) for note in conclusion.notes)
    if mean is not None and mean < DEAD_DRAFT and not named:
        text = (
            f"{_DEAD}: accept_len {mean:.2f} in greedy output, so little of the verify path is "
            "exercised"
        )
        conclusion.notes.append(text)
        yield VerifyNotice(text=text)


def _damned(
    session: Session, done: list[tuple[Stage, Evidence]]
) -> Generator[VerifyEvent, None, bool]:
    """Return whether the newest evidence is a confirmed violation; ask for fresh data if needed."""
    yield from _confirm_newest(session, done)
    rates, (share, bar) = ErrorRates(), _expected(session)
    found = any(
        judge(e, share, bar, rates).verdict == "violated" and not e.gap for _, e in done[-1:]
    )
    return found or bool(session.integrity())


def _confirm_newest(session: Session, done: list[tuple[Stage, Evidence]]) -> Iterator[VerifyEvent]:
    newest = done[-1:]
    yield from _ask_again(session, newest, *_expected(session))
    done[-1:] = newest


def _expected(session: Session) -> tuple[float, float]:
    """Return the levels of a p-value and of a bet in a whole run, whose tests are not known yet."""
    rates = ErrorRates()
    return (
        rates.statistics / _EXPECTED_TESTS,
        math.log(len(session.budget.sampled) / rates.betting),
    )


def _confirm(session: Session, done: list[tuple[Stage, Evidence]]) -> Iterator[VerifyEvent]:
    """Ask for fresh requests wherever a test was suspicious, and put both results together."""
    rates = ErrorRates()
    evidences = [evidence for _, evidence in done]
    yield from _ask_again(session, done, rates.share(evidences), rates.bar(evidences))


def _ask_again(
    session: Session, done: list[tuple[Stage, Evidence]], share: float, bar: float
) -> Iterator[VerifyEvent]:
    for index, (stage, evidence) in enumerate(done):
        if not suspicious(evidence, share, bar) or evidence.fresh or evidence.fails_again:
            continue
        if session.left < min(stage.cost // 4, session.budget.length):
            session.seen.not_tested.append(
                f"{stage.name}: no budget left to confirm a small p-value"
            )
            continue
        yield StageStarted(stage=f"{stage.name}, confirmed on fresh requests")
        try:
            fresh = stage.again()
        except Refused as error:
            session.seen.not_tested.append(refusal(stage.name, error))
            continue
        if fresh is not None:
            done[index] = (stage, evidence.with_fresh(fresh))
        yield _finished(session, stage.name, fresh)


def _refine(session: Session, done: list[tuple[Stage, Evidence]]) -> Iterator[VerifyEvent]:
    """Add tokens where nothing is suspicious but an interval is still too wide."""
    for index, (stage, evidence) in enumerate(done):
        settled = all(effect.inside for effect in evidence.effects)
        if stage.more is None or settled or evidence.fresh or evidence.witnesses:
            continue
        yield StageStarted(stage=f"{stage.name}, more tokens")
        wider = replace(stage.more(evidence), reached=evidence.reached, foreign=evidence.foreign)
        done[index] = (stage, wider)
        yield _finished(session, stage.name, wider)


def _determinism(session: Session, conclusion: Conclusion) -> Iterator[VerifyEvent]:
    """Say whether greedy output repeats itself, with what the budget has left."""
    name = "determinism at temperature 0"
    if session.left < determinism.cost(session):
        session.seen.not_tested.append(f"{name}: the budget was spent")
        return
    yield StageStarted(stage=name)
    before = session.client.spent.generated
    try:
        conclusion.notes.append(determinism.describe_determinism(session))
    except Refused as error:
        session.seen.not_tested.append(refusal(name, error))
        return
    spent = session.client.spent.generated
    yield StageFinished(
        stage=name,
        n_tokens=spent - before,
        generated=spent,
        limit=session.budget.limit,
        note=conclusion.notes[-1],
    )


def _attempt(session: Session, stage: Stage) -> Evidence | None:
    if session.left < stage.cost * session.price:
        session.seen.not_tested.append(f"{stage.name}: the budget was spent")
        return None
    before = len(session.watch.loads)
    try:
        evidence = stage.run()
    except Refused as error:
        session.seen.not_tested.append(refusal(stage.name, error))
        return None
    if evidence is None:
        return None
    peak, foreign = session.watch.since(before)
    return replace(evidence, reached=peak, foreign=foreign)


def _covered(session: Session, evidence: Evidence) -> Evidence:
    """Note on a claim that its side of the verify path was not really exercised."""
    rule = session.budget.coverage
    if evidence.lacking or evidence.witnesses:
        return evidence
    peak = session.watch.peak(evidence.concurrency)
    if peak is not None and peak < REACHED * evidence.concurrency:
        return replace(evidence, lacking=_too_few(peak, evidence.concurrency))
    if evidence.stage in _GREEDY:
        return replace(evidence, lacking=lacking(measure(session.seen.greedy_counters), rule))
    if evidence.stage in _SAMPLED:
        return replace(evidence, lacking=lacking(measure(session.seen.sampled_counters), rule))
    return evidence


def _too_few(peak: int, concurrency: int) -> str:
    return (
        f"the server never ran more than {peak} requests at once where {concurrency} were asked "
        f"for: larger batches were not tested (--concurrency {max(peak, 1)} tests what it reaches)"
    )


def _finished(session: Session, name: str, evidence: Evidence | None) -> StageFinished:
    return StageFinished(
        stage=name,
        n_tokens=evidence.n_tokens if evidence else 0,
        generated=session.progress[0],
        limit=session.progress[1],
        note=evidence.note if evidence else "not tested",
    )
