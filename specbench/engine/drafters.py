"""The drafters of the field: each proposes, for every sequence of a batch, a tree of tokens.

A drafter sees the tokens emitted so far and nothing of the target's cache: whatever it proposes,
the verifier's output has the target's distribution.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specbench.engine.draft_model import DraftModel
from specbench.engine.sequence import Sequence
from specbench.engine.tree_builders import best_first_trees
from specbench.engine.trees import Trees, chain_trees
from specbench.engine.weights import Floats

Ints = NDArray[np.int64]


class Drafter(Protocol):
    """Proposes trees; `flush` forgets what was learnt across requests."""

    def propose(self, sequences: list[Sequence]) -> Trees: ...

    def flush(self) -> None: ...


@dataclass(slots=True)
class NoDrafter:
    """Plain autoregressive decoding: a tree of the root alone."""

    def propose(self, sequences: list[Sequence]) -> Trees:
        """Return one-node trees."""
        return chain_trees(current_tokens(sequences)[:, None])

    def flush(self) -> None:
        """Nothing is learnt across requests."""


@dataclass(slots=True)
class DFlashDrafter:
    """Linear DFlash (arXiv 2602.06036): the argmax chain of one pass's marginals."""

    model: DraftModel
    block_size: int  # rows of the verify step: the root and block_size - 1 drafts

    def propose(self, sequences: list[Sequence]) -> Trees:
        """Return chains of the most probable token of each position."""
        roots = current_tokens(sequences)
        tokens, _ = marginals(self.model, sequences, roots, self.block_size - 1)
        return chain_trees(np.concatenate([roots[:, None], tokens[:, :, 0]], axis=1))

    def flush(self) -> None:
        """Nothing is learnt across requests."""


@dataclass(slots=True)
class DDTreeDrafter:
    """DDTree (arXiv 2604.12989): the best-first tree of the same marginals."""

    model: DraftModel
    positions: int  # drafted positions, the depth that the tree can have
    budget: int  # drafted nodes
    topk: int  # candidates of a position

    def propose(self, sequences: list[Sequence]) -> Trees:
        """Return best-first trees of at most `budget` drafted nodes."""
        roots = current_tokens(sequences)
        tokens, logprobs = marginals(self.model, sequences, roots, self.positions)
        return best_first_trees(roots, tokens, logprobs, self.budget, self.topk)

    def flush(self) -> None:
        """Nothing is learnt across requests."""


def marginals(
    model: DraftModel, sequences: list[Sequence], roots: Ints, positions: int
) -> tuple[Ints, Floats]:
    """Return candidates (S, D, K) of the next positions and their log-probabilities, best first.

    A block-diffusion draft predicts all positions in one pass, each knowing the others only
    through the pass. Here position i is conditioned on the most probable tokens of the positions
    before it, which plays the same part: alternatives at one position do not change the next.
    """
    current, context = roots, recent_tokens(sequences)
    tokens, logprobs = [], []
    for depth in range(1, positions + 1):
        candidates, scores = model.candidates(current, context, depth)
        tokens.append(candidates)
        logprobs.append(scores)
        context = np.concatenate([current[:, None], context[:, :-1]], axis=1)
        current = candidates[:, 0]
    return np.stack(tokens, axis=1), np.stack(logprobs, axis=1)


def current_tokens(sequences: list[Sequence]) -> Ints:
    """Return the roots (S,)."""
    return np.array([sequence.current for sequence in sequences], dtype=np.int64)


def recent_tokens(sequences: list[Sequence]) -> Ints:
    """Return the tokens before the roots (S, REACH), nearest first."""
    return np.array([sequence.recent() for sequence in sequences], dtype=np.int64)
