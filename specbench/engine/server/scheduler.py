"""Continuous batching on one thread: queue, prefill, decode rounds, KV room, retraction, abort."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from specbench.engine.decoder import Decoder
from specbench.engine.prefill import extend_caches
from specbench.engine.sequence import KvCache, Sequence
from specbench.engine.server.clock import Clock, Pace, Round
from specbench.engine.server.log import logger
from specbench.engine.server.prefix_cache import PrefixCache
from specbench.engine.server.request import Request, Wish
from specbench.engine.server.statistics import Statistics
from specbench.engine.tokenizer import TextStream, Tokenizer

INITIAL_NEW_TOKEN_RATIO = 0.7
RESERVED_TOKENS = 4096


@dataclass(frozen=True)
class Limits:
    """Resolved sizes: requests at once, KV tokens, prefill tokens a batch, verify width."""

    running: int
    kv_tokens: int
    prefill_tokens: int
    width: int
    queued: int | None = None
    radix: bool = True
    conservativeness: float = 1.0


class Scheduler:
    """Owns every request between its submission and its end.

    Prefills go first, one FIFO batch at a time; otherwise all running requests make one round
    together. `before_step` is where a server fault may interfere.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer,
        limits: Limits,
        clock: Clock,
        pace: Pace,
        shape: Round,
        statistics: Statistics,
    ) -> None:
        self.decoder, self.tokenizer, self.limits = decoder, tokenizer, limits
        self.clock, self.pace, self.shape, self.statistics = clock, pace, shape, statistics
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.cache: PrefixCache[KvCache] = PrefixCache()
        self.before_step: Callable[[], bool] = lambda: False
        self.stuck = False
        self._wake = asyncio.Event()
        self._ratio = self._initial_ratio()

    # What the HTTP side calls

    def submit(self, wish: Wish) -> Request:
        """Queue a wish; its Request is notified at each step (streams) or at its end."""
        sequence = Sequence(wish.rid, wish.prompt_ids, wish.params, wish.logprobs)
        request = Request(wish, sequence, TextStream(self.tokenizer), self.decoder.seams.text)
        request.dispatched = time.time()
        self.waiting.append(request)
        self._wake.set()
        return request

    @property
    def full(self) -> bool:
        """Whether the queue has no room for one more."""
        return self.limits.queued is not None and len(self.waiting) >= self.limits.queued

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self.running and not self.waiting

    def abort(self, rid: str | None) -> int:
        """End the requests whose id begins with `rid` (None: all); return how many."""
        hit = [
            request
            for request in (*self.waiting, *self.running)
            if rid is None or request.wish.rid.startswith(rid)
        ]
        for request in hit:
            self._abort(request)
        return len(hit)

    def drop(self, request: Request) -> None:
        """End one request whose client has gone."""
        if request.finish is None:
            self._abort(request)

    def flush(self) -> bool:
        """Empty the prefix cache and the accept statistics; refused (False) while busy."""
        if not self.idle:
            return False
        self.cache.clear()
        self.decoder.flush()
        self.statistics.flush()
        self._ratio = self._initial_ratio()
        logger.info("Cache flushed successfully!")
        return True

    def held_tokens(self) -> int:
        """KV slots that running requests use, prefix included."""
        return self.cache.held + sum(self._own(request) for request in self.running)

    def used_tokens(self) -> int:
        """KV slots in use, evictable prefixes included."""
        return self.cache.size + sum(self._own(request) for request in self.running)

    # The loop

    async def run(self) -> None:
        """Serve for ever."""
        while True:
            if self.idle or self.stuck:
                self._wake.clear()
                await self._wake.wait()
                continue
            if self.before_step():
                self.stuck = True
                continue
            if batch := self._admit():
                await self._prefill(batch)
            elif self.running:
                await self._decode()
            else:
                await asyncio.sleep(0)

    async def _prefill(self, batch: list[Request]) -> None:
        new = sum(self._to_prefill(request) for request in batch)
        cached = sum(request.cached_tokens for request in batch)
        self._log_prefill(batch, new, cached)
        deadline = self.pace.start(self.clock.prefill_s(new, cached))
        entered = time.time()
        for request in batch:
            request.forward_entry = request.forward_entry or entered
            self._score(request)
        started = time.monotonic()
        self._compute_prefill(batch)
        self.running += batch
        await self._until(deadline)
        busy = max(time.monotonic() - started, 1e-9)
        self.statistics.modes["prefill_compute"] += new
        self.statistics.modes["prefill_cache"] += cached
        self.statistics.counters["input_throughput"] = int(new / busy)
        for request in batch:
            request.prefill_finished = time.time()
            self._remember(request)
            if request.wish.params.max_new_tokens == 0:
                request.finish = request.finish or {"type": "length", "length": 0}
        self._deliver(batch)

    def _compute_prefill(self, batch: list[Request]) -> None:
        """First tokens of new requests; a retracted one only gets its KV back."""
        fresh = [r for r in batch if not r.ids and r.wish.params.max_new_tokens > 0]
        if fresh:
            self.decoder.prefill([request.sequence for request in fresh])
        for request in batch:
            if request.ids:
                known = [*request.wish.prompt_ids, *request.sequence.output_ids[:-1]]
                shadow = Sequence(request.wish.rid, known, kv=request.sequence.kv)
                extend_caches(self.decoder.language, [shadow])
                request.sequence.kv = shadow.kv

    async def _decode(self) -> None:
        self._make_room()
        batch = list(self.running)
        if not batch:
            return
        kv_tokens = sum(len(r.wish.prompt_ids) + len(r.ids) for r in batch)
        deadline = self.pace.start(self.clock.step_s(self.shape, len(batch), kv_tokens))
        self.decoder.step([request.sequence for request in batch])
        await self._until(deadline)
        accepted, verified = self._count_accepts(batch)
        tokens = self._deliver(batch)
        if self.statistics.step(tokens, accepted, verified):
            self.statistics.publish()
            self._log_decode(len(batch))
        self._ratio = max(self._initial_ratio() * 0.14, self._ratio - 0.001)

    async def _until(self, deadline: float | None) -> None:
        """Let I/O happen until the modelled end of the step."""
        if deadline is None:
            await asyncio.sleep(0)
            return
        self.pace.finish()
        await asyncio.sleep(max(0.0, deadline - time.monotonic()))

    def _count_accepts(self, batch: list[Request]) -> tuple[int, int]:
        """Drafts accepted and verify steps made in this round, untruncated."""
        accepted = verified = 0
        for request in batch:
            sequence = request.sequence
            accepted += sequence.accepted - request.seen_accepted
            verified += sequence.verify_ct - request.seen_steps
            request.seen_accepted, request.seen_steps = sequence.accepted, sequence.verify_ct
        return accepted, verified

    def _deliver(self, batch: list[Request]) -> int:
        """Hand new tokens over, end what has ended; return the number of tokens."""
        total, now = 0, time.monotonic()
        for request in batch:
            if request.finish is not None and not request.sequence.output_ids:
                self._finish(request)
                continue
            if request.finish is not None:
                continue
            tokens = request.absorb()
            total += tokens
            if request.first_token_s == 0.0 and tokens:
                request.first_token_s = now - request.began
                self.statistics.ttft[request.wish.stream].observe(request.first_token_s)
            if request.finish is not None:
                self._finish(request)
            elif request.wish.stream:
                request.notify()
        self.running = [request for request in self.running if request.finish is None]
        return total

    # Ends

    def _finish(self, request: Request) -> None:
        """Give the KV back, count, and wake the reader."""
        if self.limits.radix and request.sequence.kv.length:
            known = [*request.wish.prompt_ids, *request.sequence.output_ids]
            known = known[: request.sequence.kv.length]
            self.cache.insert(known, request.sequence.kv, request.wish.namespace)
        self._release(request)
        request.close()
        if not request.wish.deaf:
            self._count_finished(request)

    def _count_finished(self, request: Request) -> None:
        stats, stream = self.statistics, request.wish.stream
        stats.by_stream["num_requests_total", stream] += 1
        stats.by_stream["prompt_tokens_total", stream] += request.prompt_tokens
        stats.by_stream["generation_tokens_total", stream] += len(request.ids)
        stats.by_stream["cached_tokens_total", stream] += request.cached_tokens
        stats.counters["spec_verify_calls_total"] += request.sequence.verify_ct
        stats.e2e[stream].observe(request.e2e_s)
        if len(request.ids) > 1:
            gap = (request.e2e_s - request.first_token_s) / (len(request.ids) - 1)
            stats.inter_token.observe(gap, len(request.ids) - 1)

    def _abort(self, request: Request) -> None:
        self._release(request)
        request.abort()
        self.statistics.counters["num_aborted_requests_total"] += 1
        self.running = [other for other in self.running if other is not request]
        if request in self.waiting:
            self.waiting.remove(request)

    def _release(self, request: Request) -> None:
        if request.node is not None:
            self.cache.release(request.node)
            request.node = None

    # KV room

    def _own(self, request: Request) -> int:
        """KV slots of a running request outside the prefix cache."""
        depth = request.node.depth if request.node is not None else 0
        return max(0, request.prompt_tokens + len(request.sequence.output_ids) - depth)

    def _available(self) -> int:
        return self.limits.kv_tokens - self.used_tokens()

    def _admit(self) -> list[Request]:
        """Take the next requests from the queue: FIFO, as room and the running cap allow."""
        batch: list[Request] = []
        budget = self.limits.prefill_tokens
        owed = sum(self._reserve(request) for request in self.running)
        while self.waiting and len(self.running) + len(batch) < self.limits.running:
            request = self.waiting[0]
            if batch and request.prompt_tokens > budget:
                break
            self._match(request)
            need = self._to_prefill(request) + self._reserve(request)
            room = self.limits.kv_tokens - self.held_tokens() - owed
            if need > room and (batch or self.running):
                self._release(request)
                break
            self._evict(self._to_prefill(request))
            owed += need
            budget -= self._to_prefill(request)
            request.queue_s = time.monotonic() - request.began
            self.statistics.queue.observe(request.queue_s)
            batch.append(self.waiting.popleft())
        return batch

    def _match(self, request: Request) -> None:
        """Reuse the longest cached prefix; the last token, and what is scored, are computed."""
        sequence, wish = request.sequence, request.wish
        known = [*wish.prompt_ids, *sequence.output_ids]
        cap = len(known) - 1
        if wish.logprobs is not None and wish.logprob_start >= 0:
            cap = min(cap, wish.logprob_start)
        request.cached_tokens = 0
        if not self.limits.radix or cap <= 0:
            return
        found = self.cache.match(known[:cap], wish.namespace)
        if found.length and found.value is not None:
            sequence.kv = found.value.prefix(found.length)
            request.cached_tokens = found.length
            request.node = found.node
            self.cache.hold(found.node)

    def _remember(self, request: Request) -> None:
        """Put a prefilled prompt into the prefix cache and hold it there."""
        if not self.limits.radix or request.sequence.kv.length == 0:
            return
        known = [*request.wish.prompt_ids, *request.sequence.output_ids]
        known = known[: min(request.sequence.kv.length, request.prompt_tokens)]
        found = self.cache.insert(known, request.sequence.kv, request.wish.namespace)
        self.cache.hold(found.node)
        self._release(request)
        request.node = found.node

    def _to_prefill(self, request: Request) -> int:
        known = request.prompt_tokens + len(request.sequence.output_ids)
        return max(1, known - request.cached_tokens)

    def _reserve(self, request: Request) -> int:
        left = request.wish.params.max_new_tokens - len(request.ids)
        return int(min(left, RESERVED_TOKENS) * self._ratio)

    def _initial_ratio(self) -> float:
        return min(1.0, INITIAL_NEW_TOKEN_RATIO * self.limits.conservativeness)

    def _evict(self, tokens: int) -> None:
        missing = tokens - self._available()
        if missing > 0:
            self.cache.evict(missing)

    def _make_room(self) -> None:
        """Before a round: evict prefixes, then send the youngest requests back to the queue."""
        need = self.limits.width * len(self.running)
        self._evict(need)
        retracted = 0
        while need > self._available() and len(self.running) > 1:
            self._retract(min(self.running, key=lambda r: len(r.ids)))
            need = self.limits.width * len(self.running)
            self._evict(need)
            retracted += 1
        if retracted:
            self.statistics.counters["num_retracted_requests_total"] += retracted
            logger.info(
                "KV cache pool is full. Retract requests. #retracted_reqs: %d, "
                "#new_token_ratio: %.4f -> %.4f",
                retracted, self._ratio, 1.0,
            )  # fmt: skip
            self._ratio = 1.0

    def _retract(self, request: Request) -> None:
        """Drop a running request's KV and put it first in the queue; its output is kept."""
        self.running.remove(request)
        self._release(request)
        request.sequence.kv = KvCache()
        request.retractions += 1
        self.waiting.appendleft(request)

    # Scoring and log lines

    def _score(self, request: Request) -> None:
        """Teacher-forced logprobs of the prompt, from `logprob_start` on."""
        wish = request.wish
        if wish.logprobs is None or not 0 <= wish.logprob_start < len(wish.prompt_ids):
            return
        if not request.input_logprobs:
            request.input_logprobs = self.decoder.score(
                wish.prompt_ids,
                wish.logprob_start + 1,
                top_n=wish.logprobs.top_n,
                token_ids=wish.logprobs.token_ids,
            )

    def _log_prefill(self, batch: list[Request], new: int, cached: int) -> None:
        total = new + cached
        self.statistics.cache_hit_rate = cached / total if total else 0.0
        logger.info(
            "Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: %d, token usage: %.2f, "
            "#running-req: %d, #queue-req: %d, #pending-token: %d, cuda graph: False, "
            "input throughput (token/s): %.2f",
            len(batch), new, cached, self.held_tokens() / self.limits.kv_tokens,
            len(self.running), len(self.waiting),
            sum(request.prompt_tokens for request in self.waiting),
            self.statistics.counters["input_throughput"],
        )  # fmt: skip

    def _log_decode(self, running: int) -> None:
        stats, held = self.statistics, self.held_tokens()
        accept = ""
        if stats.width > 1:
            accept = (
                f"accept len: {stats.last_accept_length:.2f}, "
                f"accept rate: {stats.last_accept_rate:.2f}, "
            )
        logger.info(
            "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, %scuda graph: %s, "
            "gen throughput (token/s): %.2f, #queue-req: %d",
            running, held, held / self.limits.kv_tokens, accept,
            running <= self.clock.graph_max_bs, stats.gen_throughput, len(self.waiting),
        )  # fmt: skip
