"""What the stages of one run share: the client, the prompts, and everything seen so far."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specbench.model.verdict import IntegrityFinding, Witness
from specbench.verify.client import Client, Refused
from specbench.verify.concurrency_watch import Watch
from specbench.verify.handshake import RANKS, Server
from specbench.verify.options import Budget
from specbench.verify.prompts import Prompts
from specbench.verify.statistics.counters import RequestCounters
from specbench.verify.statistics.exchange import Stratum
from specbench.verify.statistics.integrity import Kind, findings
from specbench.verify.statistics.logprob_gap import Margins
from specbench.verify.statistics.shaping import Filters
from specbench.verify.statistics.tokens import Floats, Ints, ScoredTokens, concatenate, empty
from specbench.verify.wire import Ask, Completion, Scored, http_request

# Answers whose text is kept to be compared with its tokens, and from which length on.
_LONG, _KEPT = 16, 96

Source = Callable[[Sequence[Ask], int | None], list[list[Completion]]]
Scorer = Callable[[Sequence[tuple[tuple[int, ...], int]], int], list[Scored]]


@dataclass(frozen=True, slots=True)
class Control:
    """What is noise: margins of regret, and a plain decoder's own regrets and gaps if known."""

    margins: Margins = field(default_factory=Margins)
    regrets: Floats | None = None
    gaps: Floats | None = None


@dataclass(slots=True)
class Seen:
    """Everything that a run has seen so far.

    `stop_ids` grows as stop tokens are seen, `oddities` counts what does not add up; `greedy` and
    `sampled` are scored tokens, `contexts` draws at temperature 1, for the positive control;
    `verified_probes` are one-token requests that the server says it verified;
    `pieces` are the texts of tokens that came alone, to be compared with `long_answers`.
    """

    stop_ids: set[int] = field(default_factory=set)
    greedy_counters: list[RequestCounters] = field(default_factory=list)
    sampled_counters: list[RequestCounters] = field(default_factory=list)
    oddities: dict[tuple[Kind, str], int] = field(default_factory=dict)
    not_tested: list[str] = field(default_factory=list)
    greedy: list[ScoredTokens] = field(default_factory=list)
    sampled: list[ScoredTokens] = field(default_factory=list)
    pieces: dict[int, str] = field(default_factory=dict)
    long_answers: list[Completion] = field(default_factory=list)
    contexts: list[Stratum] = field(default_factory=list)
    verified_probes: int = 0


@dataclass(frozen=True, slots=True)
class Live:
    """Answers of the running server; `watch` counts how many requests it runs meanwhile."""

    client: Client
    watch: Watch

    def __call__(self, asks: Sequence[Ask], concurrency: int | None) -> list[list[Completion]]:
        """Send requests, so many at a time."""
        limit = min(concurrency or self.client.concurrency, len(asks))
        with self.watch.over(self.client, limit * max((a.n for a in asks), default=1)):
            return self.client.generate_all(asks, concurrency)


@dataclass(slots=True)
class Session:
    """One run: what is fixed from its start, what is known of noise, and what was seen.

    `answers` answers requests and `scores` scores outputs: of the running server, of one-token
    requests, of a recording that is made or played back. `own` are the sampling parameters of the
    user's production, where they were given. `replayed` tokens of `to_replay` came from a
    recording; `rotation` numbers prompts, so that a repeat is fresh data.
    """

    client: Client
    server: Server
    prompts: Prompts
    budget: Budget
    seed: int
    answers: Source
    scores: Scorer
    watch: Watch
    own: Filters | None = None
    to_replay: int = 0
    control: Control = field(default_factory=Control)
    seen: Seen = field(default_factory=Seen)
    rotation: int = 0
    replayed: int = 0

    @property
    def left(self) -> int:
        """Generated tokens that the budget still allows."""
        return self.budget.limit - self.client.spent.generated

    @property
    def price(self) -> int:
        """How many generated tokens one judged token costs: two where scoring it is a request."""
        return 2 if self.server.level == "one_token_scores" else 1

    @property
    def progress(self) -> tuple[int, int]:
        """Tokens so far and at most: of the budget, or of the recording that is played back."""
        if self.to_replay:
            return self.replayed, self.to_replay
        return self.client.spent.generated, self.budget.limit

    def abreast(self, requests: int) -> int:
        """Return how many of so many requests are in flight side by side."""
        return min(self.client.concurrency, requests)

    def next_prompts(self, count: int) -> list[tuple[int, ...]]:
        """Return natural prompts, other ones on every call, so that a repeat is fresh data."""
        pool, start = self.prompts.chat, self.rotation
        self.rotation += count
        return [pool[(start + k) % len(pool)] for k in range(count)]

    def ask(self, asks: Sequence[Ask], concurrency: int | None = None) -> list[list[Completion]]:
        """Send requests; keep their counters and what is odd about their form."""
        answers = self.answers(asks, concurrency)
        if self.to_replay:
            self.replayed += sum(len(part.ids) for parts in answers for part in parts)
        for ask, parts in zip(asks, answers, strict=True):
            kept = self.seen.greedy_counters if _is_greedy(ask) else self.seen.sampled_counters
            for part in parts:
                kept.append(part.counters)
                self._look_at_form(ask, part)
        return answers

    def flush(self) -> None:
        """Empty the prefix cache where that can be done, so that no KV of verification is read."""
        if "flush" in self.server.abilities:
            self.client.flush()

    def odd(self, kind: Kind, what: str) -> None:
        """Count one occurrence of something that does not add up."""
        self.seen.oddities[kind, what] = self.seen.oddities.get((kind, what), 0) + 1

    def integrity(self) -> list[IntegrityFinding]:
        """Return everything that does not add up, whatever the verdict."""
        return findings(
            [*self.seen.greedy_counters, *self.seen.sampled_counters], self.seen.oddities
        )

    def ask_and_score(
        self, asks: Sequence[Ask], concurrency: int | None = None
    ) -> tuple[ScoredTokens, list[tuple[Ask, Completion]]]:
        """Generate, empty the prefix cache, and score every output by prefill.

        The prefix cache is emptied so that the prompt part of the scoring is not KV that
        generation wrote. Row r of the table belongs to pair `request[r]`.
        """
        answers = self.ask(asks, concurrency)
        pairs = [(ask, part) for ask, parts in zip(asks, answers, strict=True) for part in parts]
        return self.score(pairs), pairs

    def score(self, pairs: Sequence[tuple[Ask, Completion]]) -> ScoredTokens:
        """Score outputs that are already there; all of one table."""
        if "flush" in self.server.abilities:
            self.client.flush()
        jobs = [((*ask.ids, *_emitted(part)), len(ask.ids)) for ask, part in pairs]
        scores = self.scores([job for job in jobs if len(job[0]) > job[1]], RANKS)
        found = iter(scores)
        tables = [
            table(next(found), part, index)
            for index, (job, (_, part)) in enumerate(zip(jobs, pairs, strict=True))
            if len(job[0]) > job[1]
        ]
        return concatenate(tables) if tables else empty(RANKS)

    def score_one(self, ids: tuple[int, ...], start: int) -> Scored:
        """Score one sequence afresh, in the way of this session."""
        return self.scores([(ids, start)], RANKS)[0]

    def contradiction(
        self,
        pair: tuple[Ask, Completion],
        position: int,
        hard: float,
        stage: str,
        concurrency: int = 1,
    ) -> Witness | None:
        """Confirm that the server's own prefill contradicts the token at `position`, afresh.

        Three things must agree: the scores of a second prefill, a one-token greedy request at
        that very context, and (where the server has it) that a bias of half the margin on the
        emitted token does not make it the favourite.
        """
        ask, part = pair
        emitted = _emitted(part)
        context, token = (*ask.ids, *emitted[:position]), emitted[position]
        again = self.score_one((*context, token), len(context))
        margin = again.top_logp[0][0] - again.logp[0]
        probe = Ask(ids=context, max_tokens=1, ignore_eos=True)
        (single,) = self.client.generate(probe)
        if margin <= hard or not single.ids or single.ids[0] == token:
            return None
        if "logit_bias" in self.server.abilities:
            biased = Ask(
                ids=context,
                max_tokens=1,
                ignore_eos=True,
                logit_bias=((token, margin / 2),),
            )
            (nudged,) = self.client.generate(biased)
            if nudged.ids[:1] == (token,):
                return None
        return Witness(
            prompt_ids=list(ask.ids),
            position=position,
            token=token,
            target_argmax=single.ids[0],
            margin_nat=round(float(margin), 3),
            curl=self.curl(probe),
            shows=self.shows(ask, position, concurrency),
            stage=stage,
        )

    def curl(self, ask: Ask) -> str:
        """Return a shell command that shows the target's own choice at a context."""
        request = http_request(ask, self.client.backend, self.client.model)
        words = ["curl", "-s", f"{self.client.url.rstrip('/')}{request.path}"]
        words += ["-H", "Content-Type: application/json", "-d", request.body.decode()]
        return shlex.join(words)

    def shows(self, ask: Ask, position: int, concurrency: int) -> str:
        """Return a shell command that asks for the token at `position` again, as it was asked for.

        What needed a batch gets one: equal requests side by side.
        """
        one = self.curl(replace(ask, max_tokens=position + 1, stream=False, ignore_eos=True))
        if concurrency < 2:
            return one
        return f"seq {concurrency} | xargs -P {concurrency} -n 1 sh -c {shlex.quote(one)}"

    def _look_at_form(self, ask: Ask, part: Completion) -> None:
        if len(part.ids) == 1 and part.text:
            self.seen.pieces[part.ids[0]] = part.text
        elif len(part.ids) >= _LONG and part.text and len(self.seen.long_answers) < _KEPT:
            self.seen.long_answers.append(part)
        if part.finish == "stop" and part.matched is not None:
            self.seen.stop_ids.add(part.matched)
        if not ask.ignore_eos and any(t in self.seen.stop_ids for t in part.ids[:-1]):
            self.odd("stop", "tokens follow a stop token")


def table(score: Scored, part: Completion, index: int) -> ScoredTokens:
    """Return the tokens of request number `index` beside their conditionals."""
    n = len(score.ids)
    logp = np.array(part.logp[:n], float)
    return ScoredTokens(
        request=np.full(n, index, np.int64),
        position=np.arange(n),
        token=np.array(score.ids, np.int64),
        logp=np.array(score.logp, float),
        top_ids=_rectangle(score.top_ids, -1).astype(np.int64),
        top_logp=_rectangle(score.top_logp, np.nan),
        output_logp=np.concatenate([logp, np.full(n - len(logp), np.nan)]),
        round_index=_places(part, n),
    )


def refusal(stage: str, error: Refused) -> str:
    """Say which stage a server refused."""
    return f"{stage}: the server refused ({error})"


def _is_greedy(ask: Ask) -> bool:
    return ask.temperature == 0.0 or ask.top_k == 1


def _emitted(part: Completion) -> tuple[int, ...]:
    """Return the ids, with the stop token where the server leaves it out."""
    if part.matched is not None and part.ids[-1:] != (part.matched,):
        return (*part.ids, part.matched)
    return part.ids


def _places(part: Completion, n: int) -> Ints:
    """Return each token's place in its verify round, if the stream shows every round."""
    places = np.full(n, -1, np.int64)
    rounds, steps = part.rounds, part.counters.verify_ct
    if not rounds or sum(rounds) != len(part.ids) or rounds[0] != 1:
        return places
    if steps is not None and len(rounds) - 1 != steps:
        return places
    start = 1
    for size in rounds[1:]:
        places[start : start + size] = np.arange(size)[: max(n - start, 0)]
        start += size
    return places


def _rectangle(rows: Sequence[Sequence[float]], fill: float) -> Floats:
    out = np.full((len(rows), RANKS), fill)
    for i, row in enumerate(rows):
        out[i, : min(len(row), RANKS)] = row[:RANKS]
    return out
