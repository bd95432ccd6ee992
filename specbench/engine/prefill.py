"""The pass that reads prompts: it fills the cache, and it can score every position on the way."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from specbench.engine.attention import committed_tails, look_back
from specbench.engine.features import MEMORY, NOTHING, REACH
from specbench.engine.lm import LanguageModel
from specbench.engine.sequence import Sequence
from specbench.engine.weights import Floats

Ints = NDArray[np.int64]
_SCORED_AT_ONCE = 128


def extend_caches(language: LanguageModel, sequences: list[Sequence]) -> None:
    """Commit the slots of each sequence's tokens that its cache does not hold yet."""
    rests = [np.array(s.ids[s.kv.length :], dtype=np.int64) for s in sequences]
    before = np.zeros((len(sequences), MEMORY), dtype=np.float32)
    for row, sequence in enumerate(sequences):
        if sequence.kv.length:
            before[row] = sequence.kv.memory[-1]
    for sequence, rest, memory in zip(
        sequences, rests, _memories(language, rests, before), strict=True
    ):
        start = sequence.kv.length
        sequence.kv.append(rest, np.arange(start, start + len(rest)), memory)


def last_row_logits(language: LanguageModel, sequences: list[Sequence]) -> Floats:
    """Return (S, V): logits after the newest committed slot of each sequence."""
    tails = committed_tails(sequences)
    rows = np.arange(len(sequences))
    positions = tails.positions[:, -1:]
    visible = np.ones((len(sequences), 1, tails.tokens.shape[1]), dtype=bool)
    seen = look_back(tails.positions, visible, positions)[:, 0]
    context = np.where(seen == NOTHING, NOTHING, tails.tokens[rows[:, None], seen])
    return language.logits(tails.tokens[:, -1], context, tails.memory[:, -1], positions[:, 0])


def scored_rows(
    language: LanguageModel, ids: list[int], start: int
) -> Iterator[tuple[int, Floats, Ints]]:
    """Yield (first position, logits (R, V), contexts (R, REACH)) of the rows from `start` on.

    Row j predicts the token at j + 1. The logits are overwritten when the next block is asked for.
    """
    tokens = np.array(ids, dtype=np.int64)
    memory = _memories(language, [tokens], np.zeros((1, MEMORY), dtype=np.float32))[0]
    padded = np.concatenate([np.full(REACH, NOTHING), tokens])
    for first in range(start, len(ids) - 1, _SCORED_AT_ONCE):
        rows = np.arange(first, min(first + _SCORED_AT_ONCE, len(ids) - 1))
        context = np.stack([padded[rows + REACH - back] for back in range(1, REACH + 1)], axis=1)
        yield first, language.logits(tokens[rows], context, memory[rows], rows), context


def _memories(language: LanguageModel, chains: list[Ints], before: Floats) -> list[Floats]:
    """Return the memories of chains of slots, position by position over all chains at once."""
    longest = max((len(chain) for chain in chains), default=0)
    tokens = np.full((len(chains), longest), NOTHING)
    for row, chain in enumerate(chains):
        tokens[row, : len(chain)] = chain
    memory = np.empty((longest, len(chains), MEMORY), dtype=np.float32)
    for step in range(longest):
        before = memory[step] = language.memory_of(tokens[:, step], before)
    return [memory[: len(chain), row] for row, chain in enumerate(chains)]
