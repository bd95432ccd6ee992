"""Faults of the sampling walk's coins, residual and thresholds."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specbench.engine.coins import CoinArray
from specbench.engine.sampling import draw
from specbench.engine.seams import Seams
from specbench.engine.verify import Coins, Proposal, Target, Thresholds, Tree, Walk


def residual_keeps_rejected(seams: Seams) -> Seams:
    """Draw the bonus token from the whole target row, rejected children included."""
    walk, reject = seams.sampling, seams.rejection

    def keeps(tree: Tree, target: Target, coins: Coins, thresholds: Thresholds) -> Walk:
        found = walk(tree, target, coins, thresholds)
        return Walk(found.path, draw(target(found.last), coins.final))

    def keeps_in_chain(tree: Tree, target: Target, proposal: Proposal, coins: Coins) -> Walk:
        found = reject(tree, target, proposal, coins)
        return Walk(found.path, draw(target(found.last), coins.final))

    return replace(seams, sampling=keeps, rejection=keeps_in_chain)


def residual_unnormalised(seams: Seams) -> Seams:
    """Draw from the residual as if it summed to one: the last token gets what is missing."""
    walk = seams.sampling

    def unnormalised(tree: Tree, target: Target, coins: Coins, thresholds: Thresholds) -> Walk:
        found = walk(tree, target, coins, thresholds)
        residual = target(found.last).copy()
        residual[[tree.tokens[child] for child in tree.children(found.last)]] = 0.0
        place = int(np.searchsorted(np.cumsum(residual), coins.final, side="right"))
        return Walk(found.path, min(place, len(residual) - 1))

    return replace(seams, sampling=unnormalised)


def one_coin_for_siblings(seams: Seams) -> Seams:
    """Test each sibling with the same coin against its own renormalised probability."""

    def walk(tree: Tree, target: Target, coins: Coins, _thresholds: Thresholds) -> Walk:
        node, path = 0, list[int]()
        while True:
            residual = target(node).copy()
            for child in tree.children(node):
                total, token = residual.sum(), tree.tokens[child]
                if total > 0 and coins.nodes[node] < residual[token] / total:
                    break
                residual[token] = 0.0
            else:
                return Walk(path, draw(residual if residual.any() else target(node), coins.final))
            path.append(child)
            node = child

    return replace(seams, sampling=walk)


def one_coin_for_depths(seams: Seams) -> Seams:
    """Use the root's coin at every node."""

    def coins(nodes: CoinArray, final: CoinArray) -> tuple[CoinArray, CoinArray]:
        return np.broadcast_to(nodes[:, :1], nodes.shape), final

    return replace(seams, coins=coins)


def one_coin_for_requests(seams: Seams) -> Seams:
    """Use the first request's coins for the whole batch."""

    def coins(nodes: CoinArray, final: CoinArray) -> tuple[CoinArray, CoinArray]:
        return np.broadcast_to(nodes[:1], nodes.shape), np.broadcast_to(final[:1], final.shape)

    return replace(seams, coins=coins)


def one_coin_for_bonus(seams: Seams) -> Seams:
    """Draw the bonus token with the coin that has just rejected the children."""
    walk = seams.sampling

    def reused(tree: Tree, target: Target, coins: Coins, thresholds: Thresholds) -> Walk:
        last = walk(tree, target, coins, thresholds).last
        return walk(tree, target, Coins(coins.nodes, coins.nodes[last]), thresholds)

    return replace(seams, sampling=reused)


Install = Callable[[Seams], Seams]


def with_thresholds(single: float = 1.0, acc: float = 1.0) -> Install:
    """Judge by thresholds that the server's arguments do not show."""
    broken = Thresholds(single, acc)

    def install(seams: Seams) -> Seams:
        walk = seams.sampling
        return replace(
            seams,
            sampling=lambda tree, target, coins, _thresholds: walk(tree, target, coins, broken),
        )

    return install
