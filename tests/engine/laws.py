"""Exact laws of verifiers: every outcome, by integration over the coins.

A verifier is constant in each coin between cuts. `integrate` asks it which coins it looks at,
splits [0, 1) at the cuts of that coin and multiplies widths, so a law is exact up to rounding.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.engine.verify import Tree, Walk

Law = dict[tuple[tuple[int, ...], int], float]
Rows = NDArray[np.float64]


class Undecided(Exception):
    """A coin was looked at that has no value yet."""

    def __init__(self, key: int) -> None:
        super().__init__(key)
        self.key = key


class NodeCoins(list[float]):
    """Coins by node; `keys[node]` names the coin that the node really uses."""

    def __init__(self, known: dict[int, float], keys: Sequence[int]) -> None:
        super().__init__()
        self.known, self.keys = known, keys

    def __getitem__(self, node: Any) -> Any:
        key = self.keys[node]
        if key not in self.known:
            raise Undecided(key)
        return self.known[key]


class LazyCoins:
    """Stands for `verify.Coins` while a law is integrated."""

    def __init__(self, known: dict[int, float], keys: Sequence[int], final: int) -> None:
        self.nodes = NodeCoins(known, keys)
        self._final = NodeCoins(known, [final])

    @property
    def final(self) -> float:
        return float(self._final[0])


def integrate(
    outcome: Callable[[dict[int, float]], Any], cuts: Callable[[int], Iterable[float]]
) -> dict[Any, float]:
    """Return the probability of each outcome; cuts(key) splits the coin of that key."""
    law: defaultdict[Any, float] = defaultdict(float)
    open_cells: list[tuple[dict[int, float], float]] = [({}, 1.0)]
    while open_cells:
        known, weight = open_cells.pop()
        try:
            law[outcome(known)] += weight
        except Undecided as undecided:
            edges = sorted({0.0, 1.0, *(cut for cut in cuts(undecided.key) if 0.0 < cut < 1.0)})
            for low, high in pairwise(edges):
                cell = {**known, undecided.key: (low + high) / 2}
                open_cells.append((cell, weight * (high - low)))
    return dict(law)


def outcome_of(walk: Walk) -> tuple[tuple[int, ...], int]:
    return tuple(walk.path), walk.bonus


def node_cuts(tree: Tree, rows: Rows, node: int) -> list[float]:
    """Return where the walk's decision at a node changes."""
    tokens = [tree.tokens[child] for child in tree.children(node)]
    return list(np.cumsum(rows[node][tokens])) if tokens else []


def bonus_cuts(tree: Tree, rows: Rows, node: int) -> list[float]:
    """Return where the bonus token after a node changes, once all children are rejected."""
    residual = rows[node].copy()
    residual[[tree.tokens[child] for child in tree.children(node)]] = 0.0
    if not residual.any():
        residual = rows[node]
    total = np.cumsum(residual)
    return list(total / total[-1])


def tree_cuts(tree: Tree, rows: Rows) -> Callable[[int], list[float]]:
    """Return the cuts of each node's coin; any other key is the bonus token's."""
    nodes = range(len(tree.tokens))
    bonus = [cut for node in nodes for cut in bonus_cuts(tree, rows, node)]
    by_node = [node_cuts(tree, rows, node) for node in nodes]
    return lambda key: by_node[key] if key < len(by_node) else bonus


def largest_error(law: Law, tree: Tree, expected: Rows) -> float:
    """Return by how much any next-token probability is wrong, weighted by how often it is met.

    A verifier is exact if, for every node, the token that follows it when the walk gets there has
    the target's distribution: P(reached u, then t) = P(reached u) P_target(t | u).
    """
    worst = 0.0
    for node in range(len(tree.tokens)):
        follows = np.zeros(expected.shape[1])
        for (path, bonus), weight in law.items():
            way = (0, *path)
            if node in way:
                place = way.index(node) + 1
                follows[tree.tokens[way[place]] if place < len(way) else bonus] += weight
        worst = max(worst, float(np.abs(follows - follows.sum() * expected[node]).max()))
    return worst
