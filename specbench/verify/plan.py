"""The stages of the battery in order, each with the way to run it again on fresh requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from specbench.verify import conformance, grammar, greedy, shapes
from specbench.verify.draws.plan import draws_stages
from specbench.verify.filters import run_both, run_min_p, run_top_p
from specbench.verify.joint import MIXES, run_joint
from specbench.verify.options import S1, WARM
from specbench.verify.sampling import (
    Sample,
    draw_sample,
    examine_sample,
    run_coins,
    run_fixed_contexts,
    title,
)
from specbench.verify.session import Session
from specbench.verify.stage import Stage, plain_stage
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.sampled import label
from specbench.verify.statistics.shaping import Filters
from specbench.verify.statistics.verdict import tokens_needed

# How the error of intervals is shared by the first look and two looks after a top-up.
_LOOKS = (0.5, 0.25, 0.25)


@dataclass(slots=True)
class Samples:
    """Samples by configuration, kept for top-up and as a source of frozen contexts."""

    of: dict[Filters, Sample] = field(default_factory=dict)
    looks: dict[Filters, int] = field(default_factory=dict)


def stages(session: Session, samples: Samples) -> list[Stage]:
    """Return the stages in order; cheap and damning ones first.

    Where a top_k may end the server, what needs none comes first: its results are kept.
    """
    if session.server.level == "draws":
        return [*draws_stages(session), *spoken_stages(session)]
    found = list(_by_cost(session, samples))
    return sorted(found, key=lambda stage: stage.top_k and session.server.quirks.fragile_top_k)


def _by_cost(session: Session, samples: Samples) -> Iterator[Stage]:
    size, length = session.budget, session.budget.length
    yield plain_stage(session, "length limits", conformance.run_lengths, 90)
    yield plain_stage(session, "logit_bias", conformance.run_bias, 64)
    for stage in greedy.stages_at_start(session):
        yield _greedy(session, stage)
    yield plain_stage(session, "second turn", greedy.run_turns, 2 * size.turns * length)
    yield plain_stage(session, "mixed batches", greedy.run_mixed, 2 * size.mixed * length)
    yield plain_stage(session, "frequency penalty", conformance.run_penalties, size.penalties * 48)
    yield plain_stage(session, "top_p", run_top_p, size.filters * 64)
    yield plain_stage(session, "min_p", run_min_p, size.filters * 64)
    yield plain_stage(
        session, "log-probabilities", conformance.run_logprobs, size.logprobs * length
    )
    coins = plain_stage(session, "independent coins", run_coins, size.coins[0] * size.coins[1])
    yield replace(coins, top_k=True)
    together = plain_stage(
        session, "parameters together", run_joint, size.joint * len(MIXES) * min(length, 64)
    )
    yield replace(together, top_k=True)
    for mix, count in size.sampled:
        yield _sampled(session, samples, mix, count)
    for mix in (S1, WARM):
        yield _frozen(session, samples, mix, size.fixed)
    if session.own is not None:
        yield _frozen(session, samples, session.own, size.own_fixed)
    both = plain_stage(session, "top_k with top_p", run_both, size.composed * 64 + 64)
    yield replace(both, top_k=True)
    yield from spoken_stages(session)
    last = greedy.soak(session)
    if last is not None:
        yield _greedy(session, last)


def spoken_stages(session: Session) -> list[Stage]:
    """Return what is asked by text: chat shapes and grammars."""
    letters = grammar.cost(session.budget.letters)
    return [
        plain_stage(session, "chat shapes", shapes.run_shapes, 0),
        plain_stage(session, "grammars", grammar.run_grammar, letters),
    ]


def top_up(session: Session, samples: Samples, filters: Filters, found: Evidence) -> Evidence:
    """Add tokens to a sample whose intervals cross their margins, within the budget."""
    sample = samples.of[filters]
    while samples.looks[filters] < len(_LOOKS) and not all(e.inside for e in found.effects):
        wanted = min(max(tokens_needed(found), len(sample.tokens) // 4), session.left)
        if wanted < len(sample.tokens) // 10:
            break
        more = draw_sample(session, filters, wanted)
        if len(more.tokens) == 0:
            break
        sample.add(more)
        samples.looks[filters] += 1
        found = _look(session, samples, sample)
    return found


def _greedy(session: Session, stage: greedy.GreedyStage) -> Stage:
    cost = sum(ask.max_tokens for ask in stage.asks)

    def run() -> Evidence:
        return greedy.run_greedy(session, stage)

    def again() -> Evidence:
        cold = run()
        if cold.fails or cold.witnesses or session.left < 2 * cost:
            return cold
        # The first run may have met a prefix cache that was warm; scoring has emptied it since.
        session.ask(stage.asks, stage.concurrency)
        return run()

    return Stage(stage.name, run, again, cost, top_k=any(ask.top_k for ask in stage.asks))


def _sampled(session: Session, samples: Samples, filters: Filters, count: int) -> Stage:
    name = title(session, filters)

    def run() -> Evidence:
        sample = draw_sample(session, filters, count)
        samples.of[filters], samples.looks[filters] = sample, 1
        if filters == S1:
            session.seen.sampled.append(sample.tokens)
        return _look(session, samples, sample)

    def again() -> Evidence:
        fresh = count if filters == session.own else count // 2
        return examine_sample(session, draw_sample(session, filters, fresh))

    def more(found: Evidence) -> Evidence:
        return top_up(session, samples, filters, found)

    return Stage(name, run, again, count, more, top_k=bool(filters.top_k))


def _frozen(session: Session, samples: Samples, filters: Filters, size: tuple[int, int]) -> Stage:
    contexts, draws = size
    name = f"frozen contexts {label(filters)}"

    def run() -> Evidence | None:
        source = samples.of.get(S1)
        if not contexts:
            session.seen.not_tested.append(
                f"{name} (bias that is aligned with the drafter; from the default budget on)"
            )
            return None
        if filters.min_p and session.server.speculative:
            session.seen.not_tested.append(f"{name}: min_p is documented to be ignored there")
            return None
        found = run_fixed_contexts(session, filters, source, size) if source is not None else None
        if found is None:
            session.seen.not_tested.append(f"{name}: no context fits")
        return found

    cost = contexts * draws * (2 if filters == S1 else 3)
    return Stage(name, run, run, cost, top_k=bool(filters.top_k))


def _look(session: Session, samples: Samples, sample: Sample) -> Evidence:
    """Examine a sample with the interval level of its current look."""
    margins = session.budget.margins
    share = _LOOKS[samples.looks[sample.filters] - 1]
    return examine_sample(session, sample, 1 - (1 - margins.level) * share)
