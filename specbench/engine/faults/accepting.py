"""Faults of what is accepted and of the token that follows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specbench.engine.sampling import Distribution, draw
from specbench.engine.seams import Round, Seams
from specbench.engine.trees import NO_NODE
from specbench.engine.verify import Target, Tree, Walk


def rows_shifted(seams: Seams) -> Seams:
    """Judge each node's children by the row before the node's own."""
    return _with_rows(seams, lambda _tree, node: max(node - 1, 0))


def _with_rows(seams: Seams, row: Callable[[Tree, int], int]) -> Seams:
    greedy, walk = seams.greedy, seams.sampling
    return replace(
        seams,
        greedy=lambda tree, argmax: greedy(tree, lambda node: argmax(row(tree, node))),
        sampling=lambda tree, target, coins, thresholds: walk(
            tree, lambda node: target(row(tree, node)), coins, thresholds
        ),
    )


def first_child_unchecked(seams: Seams) -> Seams:
    """Accept the root's first child whatever the target says."""
    greedy, walk = seams.greedy, seams.sampling

    def only_child(tree: Tree, target: Target, node: int) -> Distribution:
        probs = target(node)
        if node == 0 and tree.first_child[0] != NO_NODE:
            certain = np.zeros_like(probs)
            certain[tree.tokens[tree.first_child[0]]] = 1.0
            return certain
        return probs

    def unchecked(tree: Tree, argmax: Callable[[int], int]) -> Walk:
        child = tree.first_child[0]
        return greedy(
            tree,
            lambda node: tree.tokens[child] if node == 0 and child != NO_NODE else argmax(node),
        )

    return replace(
        seams,
        greedy=unchecked,
        sampling=lambda tree, target, coins, thresholds: walk(
            tree, lambda node: only_child(tree, target, node), coins, thresholds
        ),
    )


def bonus_from_draft(seams: Seams) -> Seams:
    """Emit the drafted token that was rejected as if it were the bonus token."""

    def walked(judged: Round, walk: Walk) -> Walk:
        child = judged.tree.first_child[walk.last]
        return walk if child == NO_NODE else Walk(walk.path, judged.tree.tokens[child])

    return replace(seams, walked=walked)


def bonus_from_root(seams: Seams) -> Seams:
    """Take the bonus token from the root's row instead of the last accepted node's."""

    def walked(judged: Round, walk: Walk) -> Walk:
        rows = judged.rows
        if rows.params.greedy:
            return Walk(walk.path, rows.argmax(0))
        return Walk(walk.path, draw(rows.distribution(0), judged.coins.final))

    return replace(seams, walked=walked)


def greedy_verify(seams: Seams) -> Seams:
    """Commit the argmax at any temperature, as SGLang does on CPU and XPU."""
    return replace(seams, judge_by=lambda params: replace(params, temperature=0.0))
