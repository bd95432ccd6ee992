"""How draft candidates become trees: best first from marginals, or step by step from paths.

Both forms of the best-first tree stand here: `best_first_paths` is the definition, a heap, and
`best_first_trees` does the same for a whole batch, layer by layer; tests hold them equal.
"""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.engine.draft_model import DraftModel
from specbench.engine.trees import NO_NODE, Trees, link_trees
from specbench.engine.weights import Floats

Ints = NDArray[np.int64]
Path = tuple[int, ...]  # the rank of the candidate chosen at each depth


def best_first_paths(logprobs: Floats, budget: int, topk: int) -> list[Path]:
    """Return the `budget` most probable paths through per-position candidates, best first.

    logprobs: (D, K) log-probabilities of the candidates of each position, sorted. A path's score
    is the sum along it. A child never scores more than its parent, so the set is a tree: DDTree,
    arXiv 2604.12989. Siblings are different candidates of one position, hence different tokens.
    """
    heap: list[tuple[float, Path]] = []
    paths: list[Path] = []

    def offer(score: float, path: Path) -> None:
        if len(path) < len(logprobs):
            for rank in range(min(topk, logprobs.shape[1])):
                value = float(np.float32(score) + logprobs[len(path), rank])
                heapq.heappush(heap, (-value, (*path, rank)))

    offer(0.0, ())
    while heap and len(paths) < budget:
        negative, path = heapq.heappop(heap)
        paths.append(path)
        offer(-negative, path)
    return paths


def best_first_trees(
    roots: Ints, candidates: Ints, logprobs: Floats, budget: int, topk: int
) -> Trees:
    """Build the best-first trees of a batch.

    roots: (S,); candidates, logprobs: (S, D, K). In each layer only the `budget` best paths can
    be among the `budget` best of all, so layers are cut to that width before the final choice.
    """
    count, depth, kinds = logprobs.shape
    topk = min(topk, kinds)
    rows = np.arange(count)[:, None]
    scores: list[Floats] = []
    parents: list[Ints] = []
    tokens: list[Ints] = []
    frontier = np.zeros((count, 1), dtype=np.float32)
    offset = 0  # number of the frontier's first path, 0 is the root
    for layer in range(depth):
        children = frontier[:, :, None] + logprobs[:, layer, None, :topk]
        flat = children.reshape(count, -1)
        kept = np.argsort(-flat, axis=1, kind="stable")[:, :budget]
        parents.append(kept // topk + offset)
        tokens.append(candidates[rows, layer, kept % topk])
        frontier = flat[rows, kept]
        offset = 1 + sum(part.shape[1] for part in scores)
        scores.append(frontier)
    return _best_of(
        roots,
        np.concatenate(scores, axis=1),
        np.concatenate(parents, axis=1),
        np.concatenate(tokens, axis=1),
        budget,
    )


def step_trees(model: DraftModel, roots: Ints, states: Ints, shape: "StepShape") -> Trees:
    """Build EAGLE's step trees (arXiv 2401.15077, 2406.16858): the draft sees each node's own path.

    In each step the topk best nodes of the step before get topk children each; in the end the best
    nodes of all steps are kept. roots: (S,) tokens; states: (S,) of the draft model after them.
    """
    count, topk = len(roots), shape.topk
    rows = np.arange(count)[:, None]
    frontier = np.zeros((count, 1), dtype=np.float32)
    reached = states[:, None]
    numbers = np.zeros((count, 1), dtype=np.int64)
    scores: list[Floats] = []
    parents: list[Ints] = []
    tokens: list[Ints] = []
    offset = 1
    for step in range(1, shape.num_steps + 1):
        table = model.table(step)
        flat = (frontier[:, :, None] + table.logprobs[reached, :topk]).reshape(count, -1)
        scores.append(flat)
        parents.append(np.repeat(numbers, topk, axis=1))
        tokens.append(table.tokens[reached, :topk].reshape(count, -1))
        kept = np.argsort(-flat, axis=1, kind="stable")[:, :topk]
        frontier = flat[rows, kept]
        reached = table.following[reached, :topk].reshape(count, -1)[rows, kept]
        numbers, offset = offset + kept, offset + flat.shape[1]
    return _best_of(
        roots,
        np.concatenate(scores, axis=1),
        np.concatenate(parents, axis=1),
        np.concatenate(tokens, axis=1),
        shape.num_draft_tokens - 1,
    )


@dataclass(frozen=True, slots=True)
class StepShape:
    """EAGLE's three numbers: steps, branches of a step, and nodes kept, root included."""

    num_steps: int
    topk: int
    num_draft_tokens: int


def _best_of(roots: Ints, scores: Floats, parents: Ints, tokens: Ints, budget: int) -> Trees:
    """Keep the `budget` best paths of each sequence and renumber them, best first.

    scores, tokens: (S, M); parents: (S, M) counts from 1, 0 is the root. A parent stands before
    its children in M, and the sort is stable, so it stays before them among equals.
    """
    count = len(roots)
    kept = np.argsort(-scores, axis=1, kind="stable")[:, :budget]
    numbers = np.zeros((count, scores.shape[1] + 1), dtype=np.int64)
    rows = np.arange(count)[:, None]
    numbers[rows, kept + 1] = np.arange(1, kept.shape[1] + 1)
    new_parents = numbers[rows, parents[rows, kept]]
    new_tokens = tokens[rows, kept]
    return link_trees(
        np.concatenate([roots[:, None], new_tokens], axis=1),
        np.concatenate([np.full((count, 1), NO_NODE), new_parents], axis=1),
    )
