"""The drafters of the field: each proposes, for every sequence of a batch, a tree of tokens.

A drafter sees the tokens emitted so far and nothing of the target's cache: whatever it proposes,
the verifier's output has the target's distribution.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specbench.engine.draft_model import DraftModel
from specbench.engine.sequence import Sequence
from specbench.engine.tree_builders import StepShape, best_first_trees, step_trees
from specbench.engine.trees import Proposals, Trees, chain_trees
from specbench.engine.weights import Floats

Ints = NDArray[np.int64]


class Drafter(Protocol):
    """What the decoder needs of a drafter."""

    def propose(self, sequences: list[Sequence]) -> Trees:
        """Return one tree for each sequence."""
        ...

    def flush(self) -> None:
        """Forget what was learnt across requests."""
        ...


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
    states = model.states(roots, recent_tokens(sequences))
    tokens: list[Ints] = []
    logprobs: list[Floats] = []
    for depth in range(1, positions + 1):
        table = model.table(depth)
        tokens.append(table.tokens[states])
        logprobs.append(table.logprobs[states])
        states = table.following[states, 0]
    return np.stack(tokens, axis=1), np.stack(logprobs, axis=1)


def current_tokens(sequences: list[Sequence]) -> Ints:
    """Return the roots (S,)."""
    return np.array([sequence.current for sequence in sequences], dtype=np.int64)


def recent_tokens(sequences: list[Sequence]) -> Ints:
    """Return the tokens before the roots (S, REACH), nearest first."""
    return np.array([sequence.recent() for sequence in sequences], dtype=np.int64)


@dataclass(slots=True)
class StepTreeDrafter:
    """EAGLE's step tree; with an independent model of shorter reach, STANDALONE."""

    model: DraftModel
    shape: StepShape

    def propose(self, sequences: list[Sequence]) -> Trees:
        """Return the step trees."""
        roots = current_tokens(sequences)
        states = self.model.states(roots, recent_tokens(sequences))
        return step_trees(self.model, roots, states, self.shape)

    def flush(self) -> None:
        """Nothing is learnt across requests."""


@dataclass(slots=True)
class SampledChainDrafter:
    """Chains sampled from the draft at each request's temperature, for p/q verification.

    Greedy requests get the argmax chain. q is the draft's distribution over its candidates.
    """

    model: DraftModel
    num_steps: int
    seed: int = 0
    _generator: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)

    def propose(self, sequences: list[Sequence]) -> Trees:
        """Return sampled chains and what they were drawn from."""
        roots = current_tokens(sequences)
        heat = np.array([0.0 if s.params.greedy else s.params.temperature for s in sequences])
        states = self.model.states(roots, recent_tokens(sequences))
        drafted: list[Ints] = [roots]
        candidates: list[Ints] = []
        probabilities: list[NDArray[np.float64]] = []
        for depth in range(1, self.num_steps + 1):
            table = self.model.table(depth)
            chances = _at_temperature(table.logprobs[states], heat)
            coins = self._generator.random(len(sequences))
            chosen = (np.cumsum(chances, axis=1) > coins[:, None]).argmax(axis=1)
            drafted.append(table.tokens[states, chosen])
            candidates.append(table.tokens[states])
            probabilities.append(chances)
            states = table.following[states, chosen]
        proposals = Proposals(np.stack(candidates, axis=1), np.stack(probabilities, axis=1))
        return replace(chain_trees(np.stack(drafted, axis=1)), drawn_from=proposals)

    def flush(self) -> None:
        """Nothing is learnt across requests."""


def _at_temperature(logprobs: Floats, heat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities (S, K) of sorted candidates; heat 0 puts all on the first."""
    scaled = logprobs.astype(np.float64) - logprobs[:, :1]
    hot = np.maximum(heat, 1e-9)[:, None]
    chances = np.exp(scaled / hot)
    chances[heat == 0.0, 1:] = 0.0
    normalised: NDArray[np.float64] = chances / chances.sum(axis=1, keepdims=True)
    return normalised
