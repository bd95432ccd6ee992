"""Trees of drafted tokens, a batch at a time, in first-child and next-sibling form.

Node 0 is the root: the token emitted last. Parents stand before their children. A chain is a tree
without siblings; plain decoding is a tree of one node.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class Proposals:
    """The distributions that the drafts of chains were sampled from, on their K candidates."""

    tokens: Ints  # (S, N - 1, K), different within a row
    probabilities: NDArray[np.float64]  # (S, N - 1, K), each row sums to 1

    def of_chain(self, row: int, vocab_size: int) -> Callable[[int], NDArray[np.float64]]:
        """Return node -> what its child was drawn from, over the whole vocabulary."""

        def proposal(node: int) -> NDArray[np.float64]:
            dense = np.zeros(vocab_size)
            dense[self.tokens[row, node]] = self.probabilities[row, node]
            return dense

        return proposal


@dataclass(frozen=True, slots=True)
class Trees:
    """S trees of at most N nodes; all arrays are (S, N), padding nodes hang on nothing."""

    tokens: Ints
    parents: Ints  # NO_NODE for the root and for padding
    depths: Ints
    first_child: Ints  # NO_NODE for a leaf
    next_sibling: Ints
    sizes: Ints  # (S,) nodes that are not padding
    drawn_from: "Proposals | None" = None  # set when the drafts were sampled and not chosen

    @property
    def width(self) -> int:
        """Rows of the verify step for each sequence, root included."""
        return int(self.tokens.shape[1])


def link_trees(tokens: Ints, parents: Ints, sizes: Ints | None = None) -> Trees:
    """Derive depths and the child and sibling links from the parents.

    Siblings are linked in the order of their node numbers, so a drafter that numbers better
    candidates first has them tried first.
    """
    count, width = tokens.shape
    rows = np.arange(count)
    depths = np.zeros_like(parents)
    first_child = np.full_like(parents, NO_NODE)
    next_sibling = np.full_like(parents, NO_NODE)
    for node in range(1, width):
        parent = parents[:, node]
        depths[:, node] = np.where(parent == NO_NODE, 0, depths[rows, parent] + 1)
    for node in range(width - 1, 0, -1):
        linked = parents[:, node] != NO_NODE
        place = rows[linked], parents[linked, node]
        next_sibling[linked, node] = first_child[place]
        first_child[place] = node
    if sizes is None:
        sizes = np.full(count, width)
    return Trees(tokens, parents, depths, first_child, next_sibling, sizes)


def chain_trees(tokens: Ints) -> Trees:
    """Return trees without siblings from (S, N) tokens, roots first."""
    count, width = tokens.shape
    steps = np.broadcast_to(np.arange(width), (count, width))
    after = np.where(steps + 1 < width, steps + 1, NO_NODE)
    siblings = np.full((count, width), NO_NODE)
    return Trees(tokens, steps - 1, steps, after, siblings, np.full(count, width))


def ancestors_visible(trees: Trees) -> Mask:
    """Return (S, N, N): whether row i sees node j, that is, whether j is i or above it."""
    count, width = trees.tokens.shape
    rows = np.arange(count)
    visible = np.zeros((count, width, width), dtype=bool)
    for node in range(width):
        parent = trees.parents[:, node]
        visible[:, node] = visible[rows, parent] & (parent != NO_NODE)[:, None]
        visible[:, node, node] = True
    return visible


def depth_positions(lengths: Ints, trees: Trees) -> Ints:
    """Return (S, N) positions: siblings share the place after their parent."""
    return lengths[:, None] + trees.depths
