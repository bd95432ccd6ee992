"""The battery's client over a decoder in this process: same answers as HTTP, without sockets.

It stands in for `specbench.verify.client.Client` in the fault matrix and the
false-alarm benchmark, where hundreds of servers are verified. Requests are batched continuously
at the concurrency asked for; finished sequences leave their KV in a prefix cache.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field

from specbench.backends.backend import Backend, HttpRequest
from specbench.backends.products import backend_for
from specbench.engine.decoder import Decoder
from specbench.engine.lm import LanguageModel
from specbench.engine.noise import NoiseConfig
from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import KvCache, LogprobWish, Sequence
from specbench.engine.speculation import SpeculationConfig
from specbench.model.facts import ServerFacts
from specbench.verify.client import Refused, Spent
from specbench.verify.statistics.counters import RequestCounters
from specbench.verify.wire import Ask, Completion, Scored


@dataclass(slots=True)
class EngineClient:
    language: LanguageModel
    spec: SpeculationConfig
    faults: tuple[str, ...] = ()
    noise_sd: float = 0.0
    seed: int = 0
    lacks: frozenset[str] = frozenset()
    concurrency: int = 16
    url: str = "http://in-process"
    backend: Backend = field(default_factory=lambda: backend_for("sglang"))
    model: str = "engine"
    draft_tokens: int | None = None
    least_new: int = 0
    spent: Spent = field(default_factory=Spent)
    decoder: Decoder = field(init=False)
    cache: list[tuple[list[int], KvCache]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        noise = NoiseConfig(sd=self.noise_sd, seed=self.seed)
        self.decoder = Decoder(
            self.language, self.spec, noise=noise, faults=self.faults, seed=self.seed
        )

    def close(self) -> None:
        pass

    def running(self) -> None:
        return None

    def identify(self) -> ServerFacts:
        info = {
            "version": "in-process",
            "model_path": "engine",
            "speculative_algorithm": None if self.spec.algorithm == "ar" else self.spec.algorithm,
            "speculative_num_draft_tokens": self.spec.num_draft_tokens,
            "context_length": 2048,
            "vocab_size": self.language.vocab_size,
            "random_seed": self.seed,
        }
        return self.backend.facts(info, {})

    def flush(self) -> bool:
        self.cache.clear()
        self.decoder.flush()
        return True

    def tokenise(self, text: str) -> tuple[int, ...]:
        if self.lacks & {"ids", "tokenize"}:
            raise Refused(404, "no tokeniser")
        return tuple(self.language.tokenizer.encode(text))

    def continuation(self, text: str, count: int) -> tuple[int, ...]:
        if "ids" in self.lacks:
            raise Refused(400, "no token ids")
        ids = tuple(self.language.tokenizer.encode(text))
        (part,) = self.generate(Ask(ids=ids, max_tokens=count, ignore_eos=True))
        return part.ids

    def generate(self, ask: Ask) -> list[Completion]:
        return self.generate_all([ask], 1)[0]

    def generate_all(
        self, asks: Many[Ask], concurrency: int | None = None
    ) -> list[list[Completion]]:
        for ask in asks:
            for name, used in (("logprobs", ask.logprobs), ("logit_bias", ask.logit_bias)):
                if used and name in self.lacks:
                    raise Refused(400, f"no {name}")
        waiting = [(i, self._sequence(ask)) for i, ask in enumerate(asks) for _ in range(ask.n)]
        waiting.reverse()
        limit = concurrency or self.concurrency
        running: list[tuple[int, Sequence]] = []
        rounds: dict[int, list[int]] = {}
        finished: list[list[Completion]] = [[] for _ in asks]
        while waiting or running:
            fresh = [waiting.pop() for _ in range(min(limit - len(running), len(waiting)))]
            if fresh:
                for _, sequence in fresh:
                    self._reuse_prefix(sequence)
                self.decoder.prefill([s for _, s in fresh])
                running += fresh
            else:
                self.decoder.step([s for _, s in running])
            for _, s in fresh or running:
                before = rounds.setdefault(id(s), [])
                before.append(len(s.output_ids) - sum(before))
            for index, s in [r for r in running if r[1].finish is not None]:
                finished[index].append(self._completion(asks[index], s, rounds.pop(id(s))))
                self.cache.append(([*s.prompt_ids, *s.output_ids[:-1]], s.kv))
            running = [r for r in running if r[1].finish is None]
        self.spent.generated += sum(len(c.ids) for parts in finished for c in parts)
        self.spent.requests += len(asks)
        return finished

    def post(self, request: HttpRequest) -> bytes:
        raise Refused(404, f"no {request.path} in this process")

    def stream(self, request: HttpRequest) -> list[bytes]:
        raise Refused(404, f"no {request.path} in this process")

    def score(self, ids: Many[int], start: int, top: int) -> Scored:
        if self.lacks & {"logprobs", "prompt_logprobs"}:
            raise Refused(400, "no log-probabilities of prompts")
        entries = self.decoder.score(list(ids), start, top_n=top)[-(len(ids) - start) :]
        self.spent.scored += len(entries)
        return Scored(
            ids=tuple(ids[start:]),
            logp=tuple(e.logprob for e in entries),
            top_ids=tuple(tuple(t for _, t in e.top) for e in entries),
            top_logp=tuple(tuple(lp for lp, _ in e.top) for e in entries),
        )

    def score_all(self, jobs: Many[tuple[tuple[int, ...], int]], top: int) -> list[Scored]:
        return [self.score(ids, start, top) for ids, start in jobs]

    def _sequence(self, ask: Ask) -> Sequence:
        params = SamplingParams(
            max_new_tokens=ask.max_tokens,
            temperature=ask.temperature,
            top_k=ask.top_k or -1,
            top_p=ask.top_p,
            min_p=ask.min_p,
            frequency_penalty=ask.frequency_penalty,
            logit_bias=dict(ask.logit_bias),
            ignore_eos=ask.ignore_eos,
        )
        wish = LogprobWish(top_n=ask.top) if ask.logprobs else None
        return Sequence(f"r{self.spent.requests}", list(ask.ids), params, wish)

    def _reuse_prefix(self, sequence: Sequence) -> None:
        """Start from the longest cached prefix, as a radix cache would."""
        best, kept = 0, None
        prompt = sequence.prompt_ids
        for ids, kv in self.cache[-256:]:
            # Whole slices first: nearly all cached sequences share less than the best so far.
            if len(ids) <= best or ids[: best + 1] != prompt[: best + 1]:
                continue
            pairs = zip(ids[best:], prompt[best:], strict=False)
            best += next((k for k, (a, b) in enumerate(pairs) if a != b), len(ids) - best)
            best, kept = min(best, len(prompt)), kv
        if kept is not None and best >= 4:
            sequence.kv = kept.prefix(min(best, kept.length))

    def _completion(self, ask: Ask, s: Sequence, rounds: list[int]) -> Completion:
        ids = tuple(s.output_ids)
        assert s.finish is not None
        finish = s.finish.type
        said = s.finish.matched
        matched = said if finish == "stop" and isinstance(said, int) else None
        tokenizer = self.language.tokenizer
        speculative = self.spec.algorithm != "ar"
        counters = RequestCounters(
            completion_tokens=len(ids),
            n_ids=len(ids),
            max_tokens=ask.max_tokens,
            finish=finish,
            verify_ct=s.verify_ct if speculative else None,
            correct=s.accepted if speculative else None,
            proposed=s.proposed if speculative else None,
            histogram=tuple(s.histogram),
            draft_tokens=self.draft_tokens,
            rounds=tuple(rounds),
        )
        kept = ids[:-1] if finish == "stop" else ids
        return Completion(
            ids=ids,
            text=self.decoder.text(kept),
            finish=finish,
            matched=matched,
            logp=tuple(e.logprob for e in s.output_logprobs) if ask.logprobs else (),
            pieces=tuple(tokenizer.decode([t]) for t in ids) if ask.logprobs else (),
            rounds=tuple(rounds) if ask.stream else (),
            counters=counters,
            cached_tokens=s.cached_tokens,
            top_ids=tuple(tuple(t for _, t in e.top) for e in s.output_logprobs),
            top_logp=tuple(tuple(lp for lp, _ in e.top) for e in s.output_logprobs),
        )
