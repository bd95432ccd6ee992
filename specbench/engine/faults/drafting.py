"""Faults of what is drafted, what rows see and where they stand."""

from dataclasses import replace

import numpy as np

from specbench.engine.seams import Seams
from specbench.engine.trees import NO_NODE, Ints, Mask, Trees, ancestors_visible, link_trees


def siblings_visible(seams: Seams) -> Seams:
    """Let every row see the siblings of its ancestors."""

    def visible(trees: Trees) -> Mask:
        mask = ancestors_visible(trees)
        same_parent = trees.parents[:, :, None] == trees.parents[:, None, :]
        siblings = same_parent & (trees.parents != NO_NODE)[:, :, None]
        leaked: Mask = (mask[:, :, :, None] & siblings[:, None, :, :]).any(axis=2)
        return mask | leaked

    return replace(seams, visible=visible)


def positions_by_index(seams: Seams) -> Seams:
    """Place the rows of a tree one after the other instead of by depth."""

    def positions(lengths: Ints, trees: Trees) -> Ints:
        numbered: Ints = lengths[:, None] + np.arange(trees.width)
        return numbered

    return replace(seams, positions=positions)


def duplicate_siblings(seams: Seams) -> Seams:
    """Let the second child of each root hold the token of the first, or give it such a child."""

    def drafted(trees: Trees) -> Trees:
        if trees.width < 3:
            return trees
        tokens, parents = trees.tokens.copy(), trees.parents.copy()
        tokens[:, 2] = tokens[:, 1]
        parents[:, 2] = 0
        return link_trees(tokens, parents, trees.sizes)

    return replace(seams, drafted=drafted)
