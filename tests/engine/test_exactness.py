"""Every verifier emits the target's distribution: proven by enumerating every outcome."""

from collections import defaultdict
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specbench.engine.trees import NO_NODE
from specbench.engine.verify import (
    Coins,
    Proposal,
    Target,
    Thresholds,
    Tree,
    Walk,
    block_walk,
    greedy_walk,
    rejection_walk,
    sampling_walk,
)
from tests.engine.laws import LazyCoins, integrate, largest_error, outcome_of, tree_cuts
from tests.engine.strategies import Rows, distributions, judged_trees, tree_of

EXACT = 1e-12
ChainWalk = Callable[[Tree, Target, Proposal, Coins], Walk]


def sampling_law(
    tree: Tree, rows: Rows, thresholds: Thresholds | None = None
) -> dict[tuple[tuple[int, ...], int], float]:
    size = len(tree.tokens)

    def outcome(known: dict[int, float]) -> tuple[tuple[int, ...], int]:
        coins = LazyCoins(known, range(size), final=size)
        chosen = thresholds or Thresholds()
        return outcome_of(sampling_walk(tree, lambda node: rows[node], coins, chosen))  # type: ignore[arg-type]  # lazy coins

    return integrate(outcome, tree_cuts(tree, rows))


@settings(max_examples=80)
@given(judged_trees())
def test_the_sampling_walk_is_exact_for_any_tree_without_duplicate_siblings(
    case: tuple[Tree, Rows],
) -> None:
    tree, rows = case

    law = sampling_law(tree, rows)

    assert sum(law.values()) == pytest.approx(1.0, abs=EXACT)
    assert largest_error(law, tree, rows) <= EXACT


@settings(max_examples=80)
@given(judged_trees())
def test_a_node_is_left_downwards_with_the_probability_of_its_children(
    case: tuple[Tree, Rows],
) -> None:
    tree, rows = case

    law = sampling_law(tree, rows)

    deeper = sum(weight for (path, _), weight in law.items() if path)
    assert deeper == pytest.approx(
        sum(rows[0][tree.tokens[child]] for child in tree.children(0)), abs=EXACT
    )


@settings(max_examples=200)
@given(judged_trees())
def test_the_greedy_walk_emits_the_argmax_after_every_token(case: tuple[Tree, Rows]) -> None:
    tree, rows = case
    best = rows.argmax(axis=1).tolist()

    walk = greedy_walk(tree, lambda node: best[node])

    way = [0, *walk.path]
    emitted = [tree.tokens[node] for node in walk.path] + [walk.bonus]
    assert emitted == [best[node] for node in way]
    assert all(tree.tokens[child] != walk.bonus for child in tree.children(walk.last))


def test_duplicate_siblings_break_exactness() -> None:
    # P = (0.5, 0.3, 0.2); two children of the root both hold token 0. The first is accepted with
    # probability 0.5; the second adds its 0.5 again, so the coin always falls on one of them.
    tree = tree_of([2, 0, 0], [NO_NODE, 0, 0])
    rows = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])

    law = sampling_law(tree, rows)

    first = sum(weight for (path, _), weight in law.items() if path)
    assert first == pytest.approx(1.0)
    assert largest_error(law, tree, rows) == pytest.approx(0.5)


@pytest.mark.parametrize("thresholds", [Thresholds(single=0.4), Thresholds(acc=0.5)])
def test_thresholds_below_one_are_not_exact(thresholds: Thresholds) -> None:
    tree = tree_of([0, 1], [NO_NODE, 0])
    rows = np.array([[0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])

    law = sampling_law(tree, rows, thresholds)

    assert largest_error(law, tree, rows) > 0.1


@st.composite
def sampled_chains(draw: DrawFn) -> tuple[int, dict[tuple[int, ...], Rows], list[Rows]]:
    """Return (drafted tokens, target after each prefix, what each draft is sampled from)."""
    vocab, drafted = draw(st.sampled_from([(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)]))
    prefixes = [
        prefix for length in range(drafted + 1) for prefix in product(range(vocab), repeat=length)
    ]
    target = {prefix: draw(distributions(vocab)) for prefix in prefixes}
    return drafted, target, [draw(distributions(vocab)) for _ in range(drafted)]


def emitted_law(
    walk: ChainWalk, drafted: int, target: dict[tuple[int, ...], Rows], proposals: list[Rows]
) -> dict[tuple[int, ...], float]:
    """Return the law of the first drafted + 1 tokens; what a round leaves open the target fills."""
    law: defaultdict[tuple[int, ...], float] = defaultdict(float)
    vocab = len(proposals[0])
    for drafts in product(range(vocab), repeat=drafted):
        chance = float(np.prod([proposals[i][token] for i, token in enumerate(drafts)]))
        if chance == 0.0:
            continue
        for emitted, weight in round_law(walk, drafts, target, proposals).items():
            for rest in product(range(vocab), repeat=drafted + 1 - len(emitted)):
                whole = (*emitted, *rest)
                filled = [
                    target[whole[:place]][whole[place]] for place in range(len(emitted), len(whole))
                ]
                law[whole] += chance * weight * float(np.prod(filled))
    return law


def round_law(
    walk: ChainWalk,
    drafts: tuple[int, ...],
    target: dict[tuple[int, ...], Rows],
    proposals: list[Rows],
) -> dict[tuple[int, ...], float]:
    size = len(drafts) + 1
    chain = tree_of([0, *drafts], list(range(-1, size - 1)))
    rows = [target[drafts[:node]] for node in range(size)]
    kept = [1.0]
    for node, token in enumerate(drafts):
        kept.append(min(1.0, kept[-1] * rows[node][token] / proposals[node][token]))
    cuts: list[list[float]] = [[] for _ in range(size)]
    finals: list[float] = []
    for node, drafted in enumerate(proposals):
        cuts[node].append(rows[node][drafts[node]] / drafted[drafts[node]])
        cuts[node].append(block_threshold(node + 1, kept, rows, proposals))
        for share in (1.0, kept[node]):
            finals += draw_cuts(np.maximum(share * rows[node] - drafted, 0.0))
    finals += [cut for row in rows for cut in draw_cuts(row)]

    def outcome(known: dict[int, float]) -> tuple[int, ...]:
        coins = LazyCoins(known, range(size), final=size)
        found = walk(chain, lambda node: rows[node], lambda node: proposals[node], coins)  # type: ignore[arg-type]  # lazy coins
        return (*(drafts[node - 1] for node in found.path), found.bonus)

    return integrate(outcome, lambda key: cuts[key] if key < size else finals)


def draw_cuts(row: Rows) -> list[float]:
    return list(np.cumsum(row) / row.sum()) if row.any() else []


def block_threshold(
    length: int, kept: list[float], rows: list[Rows], proposals: list[Rows]
) -> float:
    if length == len(proposals):
        return kept[length]
    excess = float(np.maximum(kept[length] * rows[length] - proposals[length], 0.0).sum())
    total = excess + 1.0 - kept[length]
    return excess / total if total > 0 else 1.0


@pytest.mark.parametrize("walk", [rejection_walk, block_walk])
@settings(max_examples=30)
@given(case=sampled_chains())
def test_sampled_chains_are_verified_exactly(
    walk: ChainWalk, case: tuple[int, dict[tuple[int, ...], Rows], list[Rows]]
) -> None:
    drafted, target, proposals = case

    law = emitted_law(walk, drafted, target, proposals)

    for tokens in product(range(len(proposals[0])), repeat=drafted + 1):
        wanted = np.prod([target[tokens[:place]][token] for place, token in enumerate(tokens)])
        assert law.get(tokens, 0.0) == pytest.approx(float(wanted), abs=EXACT)


def mean_accepted(
    walk: ChainWalk, target: dict[tuple[int, ...], Rows], proposals: list[Rows]
) -> float:
    mean = 0.0
    for drafts in product(range(len(proposals[0])), repeat=len(proposals)):
        chance = float(np.prod([proposals[i][token] for i, token in enumerate(drafts)]))
        if chance > 0.0:
            law = round_law(walk, drafts, target, proposals)
            mean += chance * sum(weight * (len(tokens) - 1) for tokens, weight in law.items())
    return mean


@settings(max_examples=30)
@given(sampled_chains())
def test_block_verification_accepts_at_least_as_much_as_token_verification(
    case: tuple[int, dict[tuple[int, ...], Rows], list[Rows]],
) -> None:
    _, target, proposals = case

    block = mean_accepted(block_walk, target, proposals)

    assert block >= mean_accepted(rejection_walk, target, proposals) - EXACT
