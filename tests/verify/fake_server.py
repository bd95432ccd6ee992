"""A hand-written server under test: a tiny target with the client's interface and real faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specbench.backends.backend import Backend, HttpRequest
from specbench.backends.products import backend_for
from specbench.errors import ServiceError
from specbench.model.facts import ServerFacts
from specbench.verify.client import Refused, Spent
from specbench.verify.statistics.counters import RequestCounters
from specbench.verify.wire import Ask, Completion, Scored

VOCAB = 40
EOS = 1


@dataclass
class FakeServer:
    """`faults`: greedy_verify, batch_garbage, counters_lie, overrun, hot (temperature ignored),
    no_top_p, no_min_p (ignored in verification), in_sequence (top_p decided on what top_k left;
    as sequence_in_verify and sequence_in_prefill on one side only), dead_draft (nothing accepted).

    `lacks`: abilities that are refused. `dies_after`, `restarts_after`: requests. `target` picks
    the weights. Blocks of three tokens stand for verify rounds. `busy` are requests of others,
    `runs_at_most` is what it runs at once whatever is asked.
    """

    faults: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    speculative: bool = True
    thresholds: float = 1.0
    dies_after: int | None = None
    restarts_after: int | None = None
    target: int = 0
    noise: float = 0.02
    seed: int = 0
    busy: int = 0
    runs_at_most: int = 1000
    environment: dict[str, str] = field(default_factory=dict)
    concurrency: int = 8
    url: str = "http://fake"
    backend: Backend = field(default_factory=lambda: backend_for("sglang"))
    model: str = "fake"
    draft_tokens: int | None = None
    least_new: int = 0
    now: int = 0
    spent: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.target)
        scale = rng.choice([1.2, 3.0, 7.0], size=(VOCAB, VOCAB, 1), p=[0.35, 0.3, 0.35])
        self.logits = scale * rng.normal(size=(VOCAB, VOCAB, VOCAB)) / 1.5
        self.rng = np.random.default_rng(self.seed + 1)
        # Verify (0) and prefill (1) are two kernels: the same target up to noise of their own.
        self.log_p = [self._kernel(rng) for _ in range(2)]

    def running(self) -> int | None:
        seen, self.now = self.busy + self.now, 0
        return seen

    def identify(self) -> ServerFacts:
        return self.backend.facts(self._info(), {})

    def _info(self) -> dict[str, Any]:
        late = self.restarts_after is not None and self.spent.requests > self.restarts_after
        return {
            "version": "fake",
            "model_path": "fake",
            "speculative_algorithm": "FAKE" if self.speculative else None,
            "speculative_num_draft_tokens": 3,
            "speculative_accept_threshold_acc": self.thresholds,
            "context_length": 900,
            "vocab_size": VOCAB,
            "random_seed": 2 if late else 1,
            "internal_states": [{"env_vars": self.environment}],
        }

    def close(self) -> None:
        pass

    def flush(self) -> bool:
        return "flush" not in self.lacks

    def tokenise(self, text: str) -> tuple[int, ...]:
        if self.lacks & {"ids", "tokenise"}:
            raise Refused(200, "no ids")
        return tuple(2 + ord(ch) % (VOCAB - 2) for ch in text)

    def continuation(self, text: str, count: int) -> tuple[int, ...]:
        if "ids" in self.lacks:
            raise Refused(200, "no ids")
        ids = tuple(2 + ord(ch) % (VOCAB - 2) for ch in text)
        return self.generate(Ask(ids=ids, max_tokens=count, ignore_eos=True))[0].ids

    def generate(self, ask: Ask) -> list[Completion]:
        return self.generate_all([ask], 1)[0]

    def generate_all(
        self, asks: Sequence[Ask], concurrency: int | None = None
    ) -> list[list[Completion]]:
        together = min(len(asks), concurrency or self.concurrency)
        # Seen by the next look, which may come after the last answer here.
        self.now = min(together, self.runs_at_most)
        out = []
        for ask in asks:
            self.spent.requests += 1
            if self.dies_after is not None and self.spent.requests > self.dies_after:
                raise ServiceError("the server stopped answering: gone", where=self.url)
            wanted = (("logprobs", ask.logprobs), ("logit_bias", ask.logit_bias), ("n", ask.n > 1))
            for name, used in (*wanted, ("next_scores", ask.top)):
                if used and name in self.lacks:
                    raise Refused(400, name)
            out.append([self._complete(ask, together) for _ in range(ask.n)])
        self.spent.generated += sum(len(c.ids) for parts in out for c in parts)
        return out

    def post(self, request: HttpRequest) -> bytes:
        raise Refused(404, f"no {request.path} in this process")

    def stream(self, request: HttpRequest) -> list[bytes]:
        raise Refused(404, f"no {request.path} in this process")

    def score(self, ids: Sequence[int], start: int, top: int) -> Scored:
        if "score" in self.lacks:
            raise Refused(400, "no prompt log-probabilities")
        rows = [self.log_p[1][ids[max(k - 2, 0)], ids[k - 1]] for k in range(start, len(ids))]
        order = [np.argsort(-row)[:top] for row in rows]
        self.spent.scored += len(rows)
        return Scored(
            ids=tuple(ids[start:]),
            logp=tuple(float(r[t]) for r, t in zip(rows, ids[start:], strict=True)),
            top_ids=tuple(tuple(int(t) for t in o) for o in order),
            top_logp=tuple(tuple(float(r[t]) for t in o) for r, o in zip(rows, order, strict=True)),
        )

    def score_all(self, jobs: Sequence[tuple[tuple[int, ...], int]], top: int) -> list[Scored]:
        return [self.score(ids, start, top) for ids, start in jobs]

    def _kernel(self, rng: np.random.Generator) -> np.ndarray:
        rows = self.logits + self.noise * rng.normal(size=self.logits.shape)
        top = rows.max(axis=-1, keepdims=True)
        return rows - top - np.log(np.exp(rows - top).sum(axis=-1, keepdims=True))

    def _complete(self, ask: Ask, together: int) -> Completion:
        ids: list[int] = []
        logp: list[float] = []
        first = self.log_p[1][(ask.ids[0], *ask.ids)[-2], ask.ids[-1]]
        likeliest = [int(t) for t in np.argsort(-first)[: ask.top]]
        limit = ask.max_tokens + (2 if "overrun" in self.faults and ask.max_tokens > 1 else 0)
        while len(ids) < limit:
            a, b = (ask.ids[0], *ask.ids, *ids)[-2:]
            row = self.log_p[0][a, b]
            token = self._choose(ask, row, ids, together)
            ids.append(token)
            logp.append(float(row[token]))
            if token == EOS and not ask.ignore_eos:
                break
        stopped = ids[-1] == EOS and not ask.ignore_eos
        rounds = (1,) * len(ids) if "dead_draft" in self.faults else _rounds(len(ids))
        steps = len(rounds) - 1
        correct = sum(size - 1 for size in rounds[1:])
        counters = RequestCounters(
            completion_tokens=len(ids),
            n_ids=len(ids),
            max_tokens=ask.max_tokens,
            finish="stop" if stopped else "length",
            verify_ct=steps,
            correct=correct + 1 if "counters_lie" in self.faults and steps else correct,
            proposed=2 * steps,
            histogram=tuple(sum(s - 1 == k for s in rounds[1:]) for k in range(3)),
            draft_tokens=3,
        )
        return Completion(
            ids=tuple(ids),
            text="",
            finish=counters.finish,
            matched=EOS if stopped else None,
            logp=tuple(logp) if ask.logprobs else (),
            pieces=(),
            rounds=rounds if ask.stream else (),
            counters=counters,
            top_ids=(tuple(likeliest),) if ask.top else (),
            top_logp=(tuple(float(first[t]) for t in likeliest),) if ask.top else (),
        )

    def _choose(self, ask: Ask, row: np.ndarray, ids: list[int], together: int) -> int:
        shaped = row.copy()
        for token, bias in ask.logit_bias:
            shaped[token] += bias
        for token in ids:
            shaped[token] -= ask.frequency_penalty
        verifying = len(ids) > 0
        batched = verifying and together > 1
        if batched and "batch_garbage" in self.faults and self.rng.random() < 0.02:
            return int(shaped.argmin())
        greedy = ask.temperature == 0 or ask.top_k == 1
        if greedy or (verifying and "greedy_verify" in self.faults):
            return int(shaped.argmax())
        hot = verifying and "hot" in self.faults
        p = np.exp((shaped - shaped.max()) / (1.0 if hot else ask.temperature))
        p /= p.sum()
        order = np.argsort(-p)
        whole = 1.0
        if ask.top_k:
            if self._in_sequence(verifying):
                whole = p[order[: ask.top_k]].sum()
            beyond = order[ask.top_k :]
        else:
            beyond = order[:0]
        if ask.min_p and not (verifying and "no_min_p" in self.faults):
            p = np.where(p >= ask.min_p * p.max(), p, 0)
        if ask.top_p < 1 and not (verifying and "no_top_p" in self.faults):
            before = np.cumsum(p[order]) - p[order]
            p[order[before > ask.top_p * whole]] = 0
        p[beyond] = 0
        edges = np.cumsum(p / p.sum())
        return min(int(np.searchsorted(edges, self.rng.random())), VOCAB - 1)

    def _in_sequence(self, verifying: bool) -> bool:
        if "in_sequence" in self.faults:
            return True
        return ("sequence_in_verify" if verifying else "sequence_in_prefill") in self.faults


def _rounds(n: int) -> tuple[int, ...]:
    """One token from prefill, then blocks of three, the last one cut."""
    rest = n - 1
    return (1, *[3] * (rest // 3), *([rest % 3] if rest % 3 else []))
