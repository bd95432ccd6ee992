"""Faults of what is committed to the cache, always or under a condition only."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specbench.engine.features import NOTHING
from specbench.engine.seams import Round, Seams
from specbench.engine.sequence import KvCache
from specbench.engine.trees import NO_NODE
from specbench.engine.verify import Walk

Install = Callable[[Seams], Seams]
When = Callable[[Round], bool]

DEEP = 4  # accepted drafts of the round before
LONG = 64  # committed slots
MANY_REQUESTS = 16


def commit_off_by_one(seams: Seams, when: When = lambda _judged: True) -> Seams:
    """Commit the slot after each accepted one."""
    commit = seams.commit

    def shifted(judged: Round, walk: Walk) -> list[int]:
        rows = commit(judged, walk)
        last = len(judged.tree.tokens) - 1
        return [min(row + 1, last) for row in rows] if when(judged) else rows

    return replace(seams, commit=shifted)


def commit_only_when(when: When) -> Install:
    """Commit off by one in some rounds only."""
    return lambda seams: commit_off_by_one(seams, when)


def path_not_compacted(seams: Seams) -> Seams:
    """Commit as many slots as were accepted, from the first one on, whichever were accepted."""
    return replace(seams, commit=lambda _judged, walk: list(range(len(walk.path) + 1)))


def rejected_slot_kept(seams: Seams) -> Seams:
    """Commit the first rejected child's slot after the accepted ones."""
    commit = seams.commit

    def kept(judged: Round, walk: Walk) -> list[int]:
        child = judged.tree.first_child[walk.last]
        rows = commit(judged, walk)
        return rows if child == NO_NODE else [*rows, child]

    return replace(seams, commit=kept)


def cached_memory_lost(seams: Seams) -> Seams:
    """Reuse a cached prefix without the memories of its slots."""

    def reuse(cache: KvCache) -> KvCache:
        lost = KvCache()
        tokens = np.full(cache.length, NOTHING)
        lost.append(tokens, cache.positions, np.zeros_like(cache.memory))
        return lost

    return replace(seams, reuse=reuse)


def at_concurrency(judged: Round) -> bool:
    """Whether more than one sequence is in the step."""
    return judged.batch > 1


def after_deep_acceptance(judged: Round) -> bool:
    """Whether the round before accepted many drafts."""
    return judged.sequence.last_accepted >= DEEP


def beyond_length(judged: Round) -> bool:
    """Whether the sequence has become long."""
    return judged.sequence.kv.length > LONG


def after_many_requests(judged: Round) -> bool:
    """Whether the server has seen many requests before this one."""
    return judged.sequence.number > MANY_REQUESTS
