"""The verifiers: how many drafted tokens stay, and which token follows the last of them.

Scalar and literal on purpose: these functions are what the papers and kernels say, line by line.
Exactness of each is proven in the tests by enumerating every outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from specbench.engine.sampling import Distribution, draw
from specbench.engine.trees import NO_NODE, Trees

Target = Callable[[int], Distribution]  # row of a node -> the target's distribution after it
Proposal = Callable[[int], Distribution]  # node of a chain -> what its child was drawn from


@dataclass(frozen=True, slots=True)
class Tree:
    """One sequence's tree as plain lists: see `trees` for their meaning."""

    tokens: list[int]
    first_child: list[int]
    next_sibling: list[int]

    def children(self, node: int) -> list[int]:
        """Return the children of a node in sibling order."""
        found = []
        child = self.first_child[node]
        while child != NO_NODE:
            found.append(child)
            child = self.next_sibling[child]
        return found


@dataclass(frozen=True, slots=True)
class Walk:
    """The outcome of one verification: accepted nodes from the root down, then the bonus token.

    `path` has no root; the tokens emitted are those of the path's nodes and then `bonus`, which
    was sampled from the target's row of the last node of the path (of the root if it is empty).
    """

    path: list[int] = field(default_factory=list)
    bonus: int = -1

    @property
    def last(self) -> int:
        """The node whose row gave the bonus token."""
        return self.path[-1] if self.path else 0


@dataclass(frozen=True, slots=True)
class Coins:
    """The uniform random numbers of one verification: one a node, and one for the bonus token."""

    nodes: list[float]
    final: float


@dataclass(frozen=True, slots=True)
class Thresholds:
    """SGLang's accept thresholds; below 1 they trade exactness for acceptance."""

    single: float = 1.0
    acc: float = 1.0


def split_trees(trees: Trees) -> list[Tree]:
    """Return the trees of a batch as scalar trees."""
    columns = (trees.tokens.tolist(), trees.first_child.tolist(), trees.next_sibling.tolist())
    return [Tree(*lists) for lists in zip(*columns, strict=True)]


def greedy_walk(tree: Tree, argmax: Callable[[int], int]) -> Walk:
    """Follow the child that holds the target's most probable token, as long as there is one.

    argmax: node -> the target's choice after it. SGLang: `verify_tree_greedy`.
    """
    node = 0
    path: list[int] = []
    while True:
        wanted = argmax(node)
        for child in tree.children(node):
            if tree.tokens[child] == wanted:
                path.append(child)
                node = child
                break
        else:
            return Walk(path, wanted)


def sampling_walk(tree: Tree, target: Target, coins: Coins, thresholds: Thresholds) -> Walk:
    """Walk the tree by the target's probabilities alone; exact for any tree with both thresholds 1.

    SGLang: `tree_speculative_sampling_target_only`. At each node one coin: the children's
    probabilities partition [0, 1), the child in whose part the coin falls is accepted. If it falls
    behind all of them the bonus token is drawn, with a coin of its own, from the target without
    the rejected children. Siblings must hold different tokens.
    """
    node = 0
    path: list[int] = []
    while True:
        probs = target(node)
        accepted, rejected = _accepted_child(tree, node, probs, coins.nodes[node], thresholds)
        if accepted is None:
            return Walk(path, draw(_without(probs, rejected), coins.final))
        path.append(accepted)
        node = accepted


def _accepted_child(
    tree: Tree, node: int, probs: Distribution, coin: float, thresholds: Thresholds
) -> tuple[int | None, list[int]]:
    cumulative = 0.0
    rejected: list[int] = []
    for child in tree.children(node):
        token = tree.tokens[child]
        probability = float(probs[token])
        cumulative += probability
        lucky = coin < cumulative / max(thresholds.acc, 1e-9)
        if probability > 0.0 and (lucky or probability >= thresholds.single):
            return child, rejected
        rejected.append(token)
    return None, rejected


def _without(probs: Distribution, rejected: list[int]) -> Distribution:
    """Return the residual, relu(P - rejected mass), not normalised.

    When rounding leaves nothing of it the coin could not have got here; P itself is returned then.
    """
    if not rejected:
        return probs
    residual = probs.copy()
    residual[rejected] = 0.0
    return residual if residual.any() else probs


def rejection_walk(tree: Tree, target: Target, proposal: Proposal, coins: Coins) -> Walk:
    """Verify a chain whose tokens were sampled from `proposal`: accept with min(1, p / q).

    Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318. After a rejection the bonus
    token is drawn from relu(p - q). proposal(i) is what the child of node i was drawn from.
    """
    path: list[int] = []
    for node in range(len(tree.tokens) - 1):
        token = tree.tokens[node + 1]
        probs, drafted = target(node), proposal(node)
        if coins.nodes[node] * drafted[token] >= probs[token]:
            return Walk(path, draw(_excess(probs, drafted), coins.final))
        path.append(node + 1)
    return Walk(path, draw(target(len(path)), coins.final))


def block_walk(tree: Tree, target: Target, proposal: Proposal, coins: Coins) -> Walk:
    """Verify a sampled chain as one block: never accepts less than `rejection_walk` on average.

    Sun et al., arXiv 2403.10444, algorithm 2. `kept` is p_i = min(1, p_{i-1} M_b / M_s), the
    probability that the prefix of length i is worth keeping; the longest prefix that its coin
    accepts stays, and the bonus token is drawn from relu(p_i M_b - M_s) after it.
    """
    drafted = len(tree.tokens) - 1
    kept = [1.0]
    length = 0
    for node in range(1, drafted + 1):
        token = tree.tokens[node]
        ratio = float(target(node - 1)[token]) / float(proposal(node - 1)[token])
        kept.append(min(kept[-1] * ratio, 1.0))
        accept = kept[node]
        if node < drafted:
            excess = float(np.maximum(kept[node] * target(node) - proposal(node), 0.0).sum())
            total = excess + 1.0 - kept[node]
            accept = excess / total if total > 0.0 else 1.0
        if coins.nodes[node - 1] < accept:
            length = node
    last = target(length)
    if length < drafted:
        last = _excess(kept[length] * last, proposal(length))
    return Walk(list(range(1, length + 1)), draw(last, coins.final))


def _excess(probs: Distribution, drafted: Distribution) -> Distribution:
    """Return relu(probs - drafted), or probs when rounding leaves nothing of it."""
    excess = np.maximum(probs - drafted, 0.0)
    return excess if excess.any() else probs
