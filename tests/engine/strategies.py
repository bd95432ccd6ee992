"""Random trees, chains and targets over tiny vocabularies."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

from specbench.engine.trees import NO_NODE, link_trees
from specbench.engine.verify import Tree, split_trees

Rows = NDArray[np.float64]


def tree_of(tokens: list[int], parents: list[int]) -> Tree:
    """Return a scalar tree; parents[0] is NO_NODE."""
    return split_trees(link_trees(np.array([tokens]), np.array([parents])))[0]


@st.composite
def distributions(draw: DrawFn, vocab: int, least: int = 0) -> Rows:
    weights = draw(st.lists(st.integers(least, 12), min_size=vocab, max_size=vocab).filter(any))
    return np.array(weights) / sum(weights)


@st.composite
def trees(draw: DrawFn, vocab: int, most: int = 7) -> Tree:
    """Return a tree without duplicate siblings."""
    size = draw(st.integers(1, most))
    tokens, parents = [draw(st.integers(0, vocab - 1))], [NO_NODE]
    children: list[list[int]] = [[]]
    for node in range(1, size):
        free = [place for place in range(node) if len(children[place]) < vocab]
        parent = draw(st.sampled_from(free))
        unused = sorted(set(range(vocab)) - set(children[parent]))
        token = draw(st.sampled_from(unused))
        children[parent].append(token)
        children.append([])
        tokens.append(token)
        parents.append(parent)
    return tree_of(tokens, parents)


@st.composite
def judged_trees(draw: DrawFn) -> tuple[Tree, Rows]:
    """Return a tree and the target's row after each node."""
    vocab = draw(st.integers(2, 4))
    tree = draw(trees(vocab))
    return tree, np.array([draw(distributions(vocab)) for _ in tree.tokens])
