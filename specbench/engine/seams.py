"""The steps of a verify round that can be replaced by name: what faults hook into.

The decoder calls these functions and nothing else decides anything, so the clean algorithm is what
stands in the modules they come from, and a fault is one of them exchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass

from specbench.engine import finish, trees, verify
from specbench.engine.coins import CoinArray
from specbench.engine.sampling import Distribution, Row, SamplingParams, target_distribution
from specbench.engine.sequence import Finish, KvCache, Sequence, TokenLogprob
from specbench.engine.target_rows import TargetRows, drafted_above
from specbench.engine.trees import Ints, Mask, Trees
from specbench.engine.verify import Coins, Proposal, Target, Thresholds, Tree, Walk


@dataclass(frozen=True, slots=True)
class Round:
    """What is known about one sequence while its tree is judged."""

    sequence: Sequence
    tree: Tree
    batch: int  # sequences in the step
    rows: TargetRows
    coins: Coins
    proposal: Proposal | None = None  # set when the drafts were sampled


def _same_trees(drafted: Trees) -> Trees:
    return drafted


def _same_params(params: SamplingParams) -> SamplingParams:
    return params


def _same_coins(nodes: CoinArray, final: CoinArray) -> tuple[CoinArray, CoinArray]:
    return nodes, final


def _same_walk(_round: Round, walk: Walk) -> Walk:
    return walk


def _accepted_rows(_round: Round, walk: Walk) -> list[int]:
    """Keep the slots of the root and of the accepted nodes, in this order."""
    return [0, *walk.path]


def _count(sequence: Sequence, accepted: int, proposed: int) -> None:
    sequence.count_verification(accepted, proposed)


def _same_cache(cache: KvCache) -> KvCache:
    return cache


def _same_logprobs(logprobs: list[TokenLogprob]) -> list[TokenLogprob]:
    return logprobs


def _same_text(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Seams:
    """The replaceable steps, in the order in which a request meets them."""

    reuse: Callable[[KvCache], KvCache] = _same_cache
    drafted: Callable[[Trees], Trees] = _same_trees
    visible: Callable[[Trees], Mask] = trees.ancestors_visible
    positions: Callable[[Ints, Trees], Ints] = trees.depth_positions
    judge_by: Callable[[SamplingParams], SamplingParams] = _same_params
    shape: Callable[[Row, SamplingParams], Distribution] = target_distribution
    drafted_above: Callable[[TargetRows, int], list[int]] = drafted_above
    coins: Callable[[CoinArray, CoinArray], tuple[CoinArray, CoinArray]] = _same_coins
    greedy: Callable[[Tree, Callable[[int], int]], Walk] = verify.greedy_walk
    sampling: Callable[[Tree, Target, Coins, Thresholds], Walk] = verify.sampling_walk
    rejection: Callable[[Tree, Target, Proposal, Coins], Walk] = verify.rejection_walk
    block: Callable[[Tree, Target, Proposal, Coins], Walk] = verify.block_walk
    walked: Callable[[Round, Walk], Walk] = _same_walk
    commit: Callable[[Round, Walk], list[int]] = _accepted_rows
    truncate: Callable[[Sequence, list[int], int], tuple[list[int], Finish | None]] = (
        finish.truncate
    )
    count: Callable[[Sequence, int, int], None] = _count
    logprobs: Callable[[list[TokenLogprob]], list[TokenLogprob]] = _same_logprobs
    text: Callable[[str], str] = _same_text
