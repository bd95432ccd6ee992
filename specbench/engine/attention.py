"""How rows read key-value slots: by position, among those that they may see."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.engine.features import MEMORY, NOTHING, REACH
from specbench.engine.lm import LanguageModel
from specbench.engine.sequence import Sequence
from specbench.engine.trees import Trees
from specbench.engine.weights import Floats

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

TAIL = 6  # committed slots a row searches; more than REACH, so that a shifted cache is seen
_FAR_AWAY = -(1 << 40)


@dataclass(frozen=True, slots=True)
class Forward:
    """What one pass of the target computed for S sequences of N rows."""

    logits: Floats  # (S * N, V), overwritten by the next pass
    tokens: Ints  # (S, N)
    positions: Ints  # (S, N)
    memory: Floats  # (S, N, MEMORY)
    context: Ints  # (S, N, REACH) tokens the rows found before them


@dataclass(frozen=True, slots=True)
class Tails:
    """The last TAIL committed slots of S sequences, padded in front with slots far away."""

    tokens: Ints
    positions: Ints
    memory: Floats


def committed_tails(sequences: list[Sequence]) -> Tails:
    """Gather the newest slots of each cache."""
    count = len(sequences)
    tokens = np.full((count, TAIL), NOTHING)
    positions = np.full((count, TAIL), _FAR_AWAY)
    memory = np.zeros((count, TAIL, MEMORY), dtype=np.float32)
    for row, sequence in enumerate(sequences):
        cache = sequence.kv
        kept = min(TAIL, cache.length)
        if kept:
            tokens[row, -kept:] = cache.tokens[-kept:]
            positions[row, -kept:] = cache.positions[-kept:]
            memory[row, -kept:] = cache.memory[-kept:]
    return Tails(tokens, positions, memory)


def look_back(slot_positions: Ints, visible: Mask, positions: Ints) -> Ints:
    """Return (S, N, REACH): the slot that each row finds 1, 2, ... positions before its own.

    slot_positions: (S, M); visible: (S, N, M); positions: (S, N). The newest visible slot at a
    position wins, -1 means that there is none.
    """
    slots = slot_positions.shape[1]
    distance = positions[:, :, None] - slot_positions[:, None, :]
    found = np.empty((*positions.shape, REACH), dtype=np.int64)
    for back in range(1, REACH + 1):
        there = ((distance == back) & visible)[:, :, ::-1]
        newest = slots - 1 - there.argmax(axis=2)
        found[:, :, back - 1] = np.where(there.any(axis=2), newest, NOTHING)
    return found


def forward(
    language: LanguageModel,
    sequences: list[Sequence],
    trees: Trees,
    visible: Mask,
    positions: Ints,
) -> Forward:
    """Run the target over all nodes of all trees at once, on top of the committed slots.

    visible: (S, N, N) which nodes each row may see; committed slots are seen by every row.
    """
    tails = committed_tails(sequences)
    count, width = trees.tokens.shape
    rows = np.arange(count)
    slot_tokens = np.concatenate([tails.tokens, trees.tokens], axis=1)
    slot_positions = np.concatenate([tails.positions, positions], axis=1)
    committed = np.ones((count, width, TAIL), dtype=bool)
    seen = look_back(slot_positions, np.concatenate([committed, visible], axis=2), positions)
    context = np.where(seen == NOTHING, NOTHING, slot_tokens[rows[:, None, None], seen])
    slot_memory = np.zeros((count, TAIL + width + 1, MEMORY), dtype=np.float32)
    slot_memory[:, :TAIL] = tails.memory  # the extra last slot, index -1, is "nothing": zeros
    for node in range(width):
        before = slot_memory[rows, seen[:, node, 0]]
        slot_memory[:, TAIL + node] = language.memory_of(trees.tokens[:, node], before)
    memory = slot_memory[:, TAIL:-1]
    logits = language.logits(
        trees.tokens.ravel(),
        context.reshape(-1, REACH),
        memory.reshape(-1, MEMORY),
        positions.ravel(),
    )
    return Forward(logits, trees.tokens, positions, memory, context)
