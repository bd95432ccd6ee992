"""Continuous batching on one thread: queue, prefill, decode rounds, retraction, abort."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from specbench.engine.decoder import Decoder
from specbench.engine.prefill import extend_caches
from specbench.engine.sequence import KvCache, Sequence
from specbench.engine.server.batch_log import log_decode, log_prefill, log_retraction
from specbench.engine.server.clock import Clock, Pace, Round
from specbench.engine.server.kv_pool import KvPool
from specbench.engine.server.log import logger
from specbench.engine.server.request import Request, Wish
from specbench.engine.server.statistics import Statistics
from specbench.engine.tokenizer import TextStream

NEW_TOKEN_RATIO = 0.7
LEAST_RATIO = 0.098
RATIO_DECAY = 0.001
RESERVED_TOKENS = 4096
"""SGLang admits a request if 70 % of its max_new_tokens fit (at most 4096 counted), lets that share
fall while all goes well, and sets it to 1 when it had to retract."""


@dataclass(frozen=True)
class Limits:
    """Resolved sizes: requests at once, tokens a prefill and a chunk of it, verify width, queue."""

    running: int
    prefill_tokens: int
    width: int
    chunk: int = 8192
    queued: int | None = None
    conservativeness: float = 1.0

    @property
    def ratio(self) -> float:
        """Share of max_new_tokens that must fit at admission, to begin with."""
        return min(1.0, NEW_TOKEN_RATIO * self.conservativeness)


@dataclass(frozen=True)
class Machine:
    """What the scheduler drives: the decoder, the KV slots, and the modelled hardware."""

    decoder: Decoder
    pool: KvPool
    clock: Clock
    pace: Pace
    shape: Round


class Scheduler:
    """Owns every request between its submission and its end.

    Prefills go first, one FIFO batch at a time; otherwise all running requests make one round
    together. `before_step` is where a server fault may interfere: true stops the machine for good.
    """

    def __init__(self, machine: Machine, limits: Limits, statistics: Statistics) -> None:
        self.machine, self.limits, self.statistics = machine, limits, statistics
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.before_step: Callable[[], bool] = lambda: False
        self.stuck = False
        self._wake = asyncio.Event()
        self._ratio = limits.ratio
        self._input_rate = 0.0

    # What the HTTP side calls

    def submit(self, wish: Wish, arrived: float | None = None) -> Request:
        """Queue a wish; its Request is notified at each step (streams) or at its end.

        `arrived` is when its body began to be read, on the monotonic clock; None is now.
        """
        decoder = self.machine.decoder
        sequence = Sequence(wish.rid, wish.prompt_ids, wish.params, wish.logprobs)
        pieces = TextStream(decoder.language.tokenizer, wish.skip_special)
        request = Request(wish, sequence, pieces, decoder.seams.text)
        request.dispatched = time.time()
        request.arrived = request.began if arrived is None else arrived
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
            self.drop(request)
        return len(hit)

    def drop(self, request: Request) -> None:
        """End one request from outside, if it is not over."""
        if request.finish is not None:
            return
        self.machine.pool.release(request)
        request.abort()
        self.statistics.counters["num_aborted_requests_total"] += 1
        self.running = [other for other in self.running if other is not request]
        if request in self.waiting:
            self.waiting.remove(request)

    def flush(self) -> bool:
        """Empty the prefix cache and the accept statistics; refused (False) while busy."""
        if not self.idle:
            return False
        self.machine.pool.cache.clear()
        self.machine.decoder.flush()
        self.statistics.flush()
        self._ratio = self.limits.ratio
        logger.info("Cache flushed successfully!")
        return True

    def held_tokens(self) -> int:
        """KV slots that running requests use, prefixes included."""
        return self.machine.pool.held(self.running)

    # The loop

    async def run(self) -> None:
        """Serve for ever."""
        while True:
            if self.idle or self.stuck:
                self.machine.pace.rest()
                self._wake.clear()
                await self._wake.wait()
            elif self.before_step():
                self.stuck = True
            elif batch := self._admit():
                await self._prefill(batch)
            else:
                await self._decode()

    async def _prefill(self, batch: list[Request]) -> None:
        new = sum(_to_compute(request) for request in batch)
        cached = sum(request.cached_tokens for request in batch)
        self.statistics.prefilled(new, cached)
        usage = self.held_tokens() / self.machine.pool.capacity
        running = len(self.running)
        log_prefill(batch, (new, cached), usage, running, self.waiting, self._input_rate)
        started, entered = time.monotonic(), time.time()
        seconds = self.machine.clock.chunked_prefill_s(new, cached, self.limits.chunk)
        deadline = self.machine.pace.start(seconds, min(request.arrived for request in batch))
        for request in batch:
            request.forward_entry = request.forward_entry or entered
            self._score(request)
        self._compute_prefill(batch)
        self.running += batch
        await self._until(deadline)
        self._input_rate = new / max(time.monotonic() - started, 1e-9)
        for request in batch:
            if request.finish is None:
                request.prefill_finished = time.time()
                self.machine.pool.remember_prompt(request)
        self._deliver(batch)
        await _let_out()

    def _compute_prefill(self, batch: list[Request]) -> None:
        """First tokens of new requests; a retracted one only gets its KV back."""
        decoder = self.machine.decoder
        fresh = [r for r in batch if not r.ids and r.wish.params.max_new_tokens > 0]
        if fresh:
            decoder.prefill([request.sequence for request in fresh])
        for request in batch:
            if request.ids:
                shadow = Sequence(request.wish.rid, request.known_ids()[:-1])
                shadow.kv = request.sequence.kv
                extend_caches(decoder.language, [shadow])

    async def _decode(self) -> None:
        self._make_room()
        batch, machine = list(self.running), self.machine
        if not batch:
            await asyncio.sleep(0)
            return
        kv_tokens = sum(r.prompt_tokens + len(r.ids) for r in batch)
        deadline = machine.pace.start(machine.clock.step_s(machine.shape, len(batch), kv_tokens))
        machine.decoder.step([request.sequence for request in batch])
        await self._until(deadline)
        accepted, verified = _accepts(batch)
        tokens = self._deliver(batch)
        await _let_out()
        if self.statistics.step(tokens, accepted, verified):
            self._publish(len(batch), kv_tokens)
        self._ratio = max(LEAST_RATIO, self._ratio - RATIO_DECAY)

    async def _until(self, deadline: float | None) -> None:
        """Let I/O happen until the modelled end of the step."""
        if deadline is None:
            await asyncio.sleep(0)
            return
        await asyncio.sleep(max(0.0, deadline - time.monotonic()))
        self.machine.pace.finish()

    def _deliver(self, batch: list[Request]) -> int:
        """Hand new tokens over, end what has ended; return the number of tokens."""
        total, now = 0, time.monotonic()
        for request in batch:
            if request.finish is not None:
                continue
            tokens = request.absorb()
            total += tokens
            if request.first_token_s == 0.0 and tokens:
                request.first_token_s = now - request.began
            if request.finish is not None:
                self.machine.pool.give_back(request)
                request.close()
                self.statistics.finished(request)
            elif request.wish.stream:
                request.notify()
        self.running = [request for request in self.running if request.finish is None]
        return total

    def _publish(self, running: int, kv_tokens: int) -> None:
        self.statistics.publish()
        graph = running <= self.machine.clock.graph_max_bs
        usage = kv_tokens / self.machine.pool.capacity
        log_decode(self.statistics, running, kv_tokens, usage, len(self.waiting), graph=graph)

    # Admission and room

    def _admit(self) -> list[Request]:
        """Take the next requests from the queue: FIFO, as room and the running cap allow."""
        batch: list[Request] = []
        pool, budget = self.machine.pool, self.limits.prefill_tokens
        owed = sum(self._reserve(request) for request in self.running)
        while self.waiting and len(self.running) + len(batch) < self.limits.running:
            request = self.waiting[0]
            if batch and request.prompt_tokens > budget:
                break
            pool.reuse(request)
            new = _to_compute(request)
            need = new + self._reserve(request)
            room = pool.capacity - pool.held(self.running) - owed
            alone = not batch and not self.running
            if (need > room and not alone) or not pool.ensure(new, self.running):
                pool.release(request)
                break
            owed += need
            budget -= new
            request.queue_s = time.monotonic() - request.began
            batch.append(self.waiting.popleft())
        return batch

    def _reserve(self, request: Request) -> int:
        left = request.wish.params.max_new_tokens - len(request.ids)
        return int(min(left, RESERVED_TOKENS) * self._ratio)

    def _make_room(self) -> None:
        """Before a round: evict prefixes, then send the youngest requests back to the queue."""
        retracted = 0
        pool, width = self.machine.pool, self.limits.width
        while not pool.ensure(width * len(self.running), self.running) and len(self.running) > 1:
            self._retract(min(self.running, key=lambda request: len(request.ids)))
            retracted += 1
        if retracted:
            self.statistics.counters["num_retracted_requests_total"] += retracted
            log_retraction(retracted, self._ratio)
            self._ratio = 1.0

    def _retract(self, request: Request) -> None:
        """Drop a running request's KV and put it first in the queue; its output is kept."""
        self.running.remove(request)
        self.machine.pool.release(request)
        request.sequence.kv = KvCache()
        request.retractions += 1
        self.waiting.appendleft(request)

    def _score(self, request: Request) -> None:
        """Teacher-forced logprobs of the prompt, from `logprob_start` on."""
        wish = request.wish
        if wish.logprobs is None or not 0 <= wish.logprob_start < len(wish.prompt_ids):
            return
        if not request.input_logprobs:
            request.input_logprobs = self.machine.decoder.score(
                wish.prompt_ids,
                wish.logprob_start + 1,
                top_n=wish.logprobs.top_n,
                token_ids=wish.logprobs.token_ids,
            )


async def _let_out() -> None:
    """Let streams send what was delivered before the next step computes.

    A step computes in one go: what waits meanwhile would leave late by all of it.
    """
    await asyncio.sleep(0)


def _to_compute(request: Request) -> int:
    """Tokens of a request that its prefill must compute."""
    known = request.prompt_tokens + len(request.sequence.output_ids)
    return max(1, known - request.cached_tokens)


def _accepts(batch: list[Request]) -> tuple[int, int]:
    """Drafts accepted and verify steps made in this round, untruncated."""
    accepted = verified = 0
    for request in batch:
        sequence = request.sequence
        accepted += sequence.accepted - request.seen_accepted
        verified += sequence.verify_ct - request.seen_steps
        request.seen_accepted, request.seen_steps = sequence.accepted, sequence.verify_ct
    return accepted, verified
