"""Trees: how they are built, linked, seen and placed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specbench.engine.attention import look_back
from specbench.engine.decoder import make_drafter
from specbench.engine.draft_model import DraftModel
from specbench.engine.drafters import marginals
from specbench.engine.lm import LanguageModel
from specbench.engine.sampling import SamplingParams
from specbench.engine.speculation import SpeculationConfig
from specbench.engine.tree_builders import StepShape, best_first_paths, best_first_trees, step_trees
from specbench.engine.trees import (
    NO_NODE,
    Trees,
    ancestors_visible,
    chain_trees,
    depth_positions,
    link_trees,
)
from tests.engine.runs import requests


@st.composite
def marginal_scores(draw: DrawFn) -> np.ndarray:
    depth, kinds = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    seed = draw(st.integers(0, 10_000))
    probs = np.random.default_rng(seed).dirichlet(np.full(kinds + 1, 0.5), depth)[:, :kinds]
    return np.log(np.sort(probs + 1e-6, axis=1)[:, ::-1]).astype(np.float32)


def paths_of(trees: Trees, candidates: np.ndarray) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, trees.width):
        parent = paths[trees.parents[0, node]]
        rank = candidates[0, len(parent)].tolist().index(trees.tokens[0, node])
        paths.append((*parent, rank))
    return paths[1:]


@given(marginal_scores(), st.integers(1, 20), st.integers(1, 5))
def test_the_batched_best_first_tree_is_the_heaps(
    scores: np.ndarray, budget: int, topk: int
) -> None:
    depth, kinds = scores.shape
    candidates = (np.arange(kinds)[None, :] + 10 * np.arange(depth)[:, None])[None]

    trees = best_first_trees(np.array([99]), candidates, scores[None], budget, topk)

    assert paths_of(trees, candidates) == best_first_paths(scores, budget, topk)


@given(marginal_scores(), st.integers(1, 20))
def test_one_candidate_a_position_makes_a_chain(scores: np.ndarray, budget: int) -> None:
    paths = best_first_paths(scores, budget, topk=1)

    assert paths == [(0,) * length for length in range(1, min(budget, len(scores)) + 1)]


def trees_of(language: LanguageModel, name: str) -> Trees:
    spec = {
        "dflash": SpeculationConfig.dflash(8),
        "ddtree": SpeculationConfig.ddtree(24, 6),
        "eagle": SpeculationConfig.eagle(4, 4, 14),
        "standalone": SpeculationConfig.standalone(3, 2, 6),
        "ngram": SpeculationConfig.ngram(10, 4),
        "dummy": SpeculationConfig.ddtree(24, 6, quality=0.0),
    }[name]
    sequences = requests(language, 8, SamplingParams())
    for sequence in sequences:
        sequence.output_ids = language.tokenizer.encode(" The answer is 4.\n\nThe answer is")
    return make_drafter(language, spec, seed=0).propose(sequences)


@pytest.mark.parametrize("name", ["dflash", "ddtree", "eagle", "standalone", "ngram", "dummy"])
def test_no_drafter_proposes_duplicate_siblings(language: LanguageModel, name: str) -> None:
    trees = trees_of(language, name)

    for row in range(len(trees.tokens)):
        hung = [
            (parent, token)
            for parent, token in zip(trees.parents[row], trees.tokens[row], strict=True)
            if parent != NO_NODE
        ]
        assert len(hung) == len(set(hung)) == trees.sizes[row] - 1


@pytest.mark.parametrize("name", ["dflash", "ddtree", "eagle", "ngram"])
def test_links_say_the_same_as_parents(language: LanguageModel, name: str) -> None:
    trees = trees_of(language, name)

    for row in range(len(trees.tokens)):
        for node in range(trees.width):
            children, child = [], trees.first_child[row, node]
            while child != NO_NODE:
                children.append(child)
                child = trees.next_sibling[row, child]
            assert children == np.flatnonzero(trees.parents[row] == node).tolist()
            assert all(
                trees.depths[row, child] == trees.depths[row, node] + 1 for child in children
            )


def test_the_first_step_of_an_eagle_tree_is_the_drafts_own_ranking(
    language: LanguageModel,
) -> None:
    model = DraftModel(language)
    states = model.states(np.array([300]), np.full((1, 3), -1))

    trees = step_trees(model, np.array([300]), states, StepShape(2, 3, 13))

    children = trees.tokens[0, trees.parents[0] == 0].tolist()
    assert children == model.table(1).tokens[states[0], :3].tolist()


@pytest.mark.parametrize("reach", [1, 3])
def test_following_a_candidate_leads_to_the_state_of_the_longer_text(
    language: LanguageModel, reach: int
) -> None:
    model = DraftModel(language, quality=0.7, reach=reach)
    ids = requests(language, 1, SamplingParams())[0].prompt_ids
    chain = [*ids]
    state = model.states(np.array(chain[-1:]), np.array([chain[-2:-5:-1]]))
    for depth in range(1, 12):
        table = model.table(depth)
        chain.append(int(table.tokens[state[0], 0]))
        state = table.following[state, 0]

        assert state == model.states(np.array(chain[-1:]), np.array([chain[-2:-5:-1]]))


def test_marginals_of_one_position_do_not_depend_on_the_block(language: LanguageModel) -> None:
    model = DraftModel(language, quality=0.8)
    sequences = requests(language, 3, SamplingParams())
    for sequence in sequences:
        sequence.output_ids = [300]
    roots = np.array([300, 300, 300])

    short, long = (marginals(model, sequences, roots, positions)[0] for positions in (4, 9))

    assert np.array_equal(short, long[:, :4])


def test_rows_see_their_ancestors_and_siblings_share_a_position() -> None:
    trees = link_trees(np.array([[9, 1, 2, 3, 4]]), np.array([[NO_NODE, 0, 0, 1, 1]]))

    visible = ancestors_visible(trees)[0]

    assert np.flatnonzero(visible[4]).tolist() == [0, 1, 4]
    assert np.flatnonzero(visible[2]).tolist() == [0, 2]
    assert depth_positions(np.array([7]), trees).tolist() == [[7, 8, 8, 9, 9]]


def test_a_chain_is_a_linked_tree_without_siblings() -> None:
    tokens = np.array([[5, 6, 7], [8, 9, 10]])

    chain, linked = chain_trees(tokens), link_trees(tokens, np.array([[-1, 0, 1]] * 2))

    for one, other in zip(
        (chain.parents, chain.depths, chain.first_child, chain.next_sibling),
        (linked.parents, linked.depths, linked.first_child, linked.next_sibling),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_rows_look_slots_up_by_position_and_the_newest_wins() -> None:
    slots = np.array([[3, 4, 5, 5]])
    visible = np.array([[[True, True, True, True], [True, True, True, False]]])

    found = look_back(slots, visible, np.array([[6, 6]]))

    assert found.tolist() == [[[3, 1, 0], [2, 1, 0]]]
    assert look_back(slots, visible, np.array([[9, 9]]))[0, 0].tolist() == [-1, -1, -1]
