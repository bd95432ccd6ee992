"""Who holds which KV slots: running requests, the prefix cache, and what is free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from specbench.engine.sequence import Ints, KvCache
from specbench.engine.server.prefix_cache import Node, PrefixCache
from specbench.engine.server.request import Request
from specbench.engine.weights import Floats


@dataclass(frozen=True, slots=True)
class KvRun:
    """KV slots of a run of tokens; a slice is a copy, so it keeps nothing else alive."""

    tokens: Ints
    positions: Ints
    memory: Floats

    @classmethod
    def of(cls, kv: KvCache) -> Self:
        """View the slots of a live cache; a slice of it is taken when it is inserted."""
        return cls(kv.tokens, kv.positions, kv.memory)

    def __getitem__(self, part: slice) -> Self:
        """Copy a part."""
        return type(self)(
            self.tokens[part].copy(), self.positions[part].copy(), self.memory[part].copy()
        )


class KvPool:
    """A fixed number of slots, shared by running requests and by prefixes kept for later."""

    def __init__(self, capacity: int, *, radix: bool) -> None:
        self.capacity = capacity
        self.radix = radix
        self.cache: PrefixCache[KvRun] = PrefixCache()

    def held(self, running: Sequence[Request]) -> int:
        """Slots that running requests use, their prefixes included."""
        return self.cache.held + sum(own_slots(request) for request in running)

    def used(self, running: Sequence[Request]) -> int:
        """Slots in use, evictable prefixes included."""
        return self.cache.size + sum(own_slots(request) for request in running)

    def ensure(self, tokens: int, running: Sequence[Request]) -> bool:
        """Evict prefixes until `tokens` slots are free; False when that is not enough."""
        missing = tokens - (self.capacity - self.used(running))
        if missing > 0:
            missing -= self.cache.evict(missing)
        return missing <= 0

    def reuse(self, request: Request) -> None:
        """Give a request the longest cached prefix; the last token, and what is scored, are new."""
        sequence, wish = request.sequence, request.wish
        known = request.known_ids()
        cap = len(known) - 1
        if wish.logprobs is not None and wish.logprob_start >= 0:
            cap = min(cap, wish.logprob_start)
        request.cached_tokens = 0
        if not self.radix or cap <= 0:
            return
        found = self.cache.match(known[:cap], wish.namespace)
        if found.length:
            sequence.kv = KvCache()
            for run in found.values():
                sequence.kv.append(run.tokens, run.positions, run.memory)
            request.cached_tokens = found.length
            self._hold(request, found.node)

    def remember_prompt(self, request: Request) -> None:
        """Keep a prefilled prompt for others, and hold it while the request runs."""
        length = min(request.sequence.kv.length, request.prompt_tokens)
        if self.radix and length:
            known, kv = request.wish.prompt_ids[:length], KvRun.of(request.sequence.kv)
            node = self.cache.insert(known, kv, request.wish.namespace).node
            self._hold(request, node)

    def give_back(self, request: Request) -> None:
        """Keep what a finished request computed as a prefix, and free the rest."""
        kv = request.sequence.kv
        if self.radix and kv.length:
            known = request.known_ids()[: kv.length]
            self.cache.insert(known, KvRun.of(kv), request.wish.namespace)
        self.release(request)

    def release(self, request: Request) -> None:
        """Let go of the prefix that a request holds."""
        if request.node is not None:
            self.cache.release(request.node)
            request.node = None

    def _hold(self, request: Request, node: Node[KvRun]) -> None:
        previous, request.node = request.node, node
        self.cache.hold(node)
        if previous is not None:
            self.cache.release(previous)


def own_slots(request: Request) -> int:
    """Slots of a running request outside the prefix cache."""
    depth = request.node.depth if request.node is not None else 0
    return max(0, request.prompt_tokens + len(request.sequence.output_ids) - depth)
