"""One small tree and one demanding request: the law of a whole verification, seams included.

Every sampling parameter matters here, so a fault in any of them shows in the law.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from specbench.engine.judging import judge
from specbench.engine.sampling import SamplingParams
from specbench.engine.seams import Round, Seams
from specbench.engine.sequence import Sequence
from specbench.engine.target_rows import TargetRows
from specbench.engine.trees import NO_NODE, link_trees
from specbench.engine.verify import Thresholds, Tree, split_trees
from tests.engine.laws import (
    Law,
    LazyCoins,
    Rows,
    bonus_cuts,
    integrate,
    node_cuts,
    outcome_of,
)

TOKENS = [0, 1, 2, 1, 3]  # root; two children of the root; two children of the first child
PARENTS = [NO_NODE, 0, 0, 1, 1]
GENERATED = Counter({1: 2, 4: 1})
PARAMS = SamplingParams(
    temperature=0.7,
    top_k=3,
    top_p=0.8,
    min_p=0.2,
    frequency_penalty=0.5,
    presence_penalty=0.4,
    repetition_penalty=1.3,
    logit_bias={2: 0.9, 3: -0.6},
)
LOGITS = np.array(
    [
        [0.3, 3.4, 0.6, 1.2, 0.2, -0.4],
        [0.2, 3.6, -0.4, 2.0, 1.1, 0.1],
        [-1.2, 0.8, -1.8, -0.7, 0.0, -1.5],
        [0.6, 0.2, 1.5, 0.1, 0.7, 1.1],
        [0.8, 0.0, -1.2, -1.8, -1.9, 0.1],
    ],
    dtype=np.float32,
)
NODE_GRID, BONUS_GRID = 6, 12  # cells beside the exact cuts, for faults that cut elsewhere


def expected_rows(params: SamplingParams = PARAMS) -> Rows:
    """Return what the request asks for after each node, computed independently of the engine."""
    return np.array([_expected(node, params) for node in range(len(TOKENS))])


def _expected(node: int, params: SamplingParams) -> Rows:
    counts, place = Counter(GENERATED), node
    while place > 0:
        counts[TOKENS[place]] += 1
        place = PARENTS[place]
    scores = [float(value) for value in LOGITS[node]]
    for token, times in counts.items():
        scores[token] -= params.frequency_penalty * times + params.presence_penalty
        factor = params.repetition_penalty
        scores[token] = scores[token] / factor if scores[token] > 0 else scores[token] * factor
    for token, bias in params.logit_bias.items():
        scores[token] += bias
    weights = np.exp(np.array(scores) / params.temperature)
    probs = weights / weights.sum()
    kept = np.zeros_like(probs)
    above = 0.0
    for rank, token in enumerate(np.argsort(-probs)):
        inside = rank < params.top_k and above < params.top_p
        if inside and probs[token] >= params.min_p * probs.max():
            kept[token] = probs[token]
        above += probs[token]
    return np.array(kept / kept.sum())


def drafted_tree(seams: Seams) -> Tree:
    trees = seams.drafted(link_trees(np.array([TOKENS]), np.array([PARENTS])))
    return split_trees(trees)[0]


def emitted_law(seams: Seams, params: SamplingParams = PARAMS) -> tuple[Tree, Law]:
    """Return the tree and the law of (accepted path, bonus token) under the seams."""
    tree = drafted_tree(seams)
    size = len(tree.tokens)
    names = np.arange(size + 1.0)[None, :]
    nodes, final = seams.coins(names[:, :size], names[:, size])
    keys = [int(key) for key in nodes[0]]

    rows = RememberedRows(
        LOGITS,
        seams.judge_by(params),
        GENERATED,
        (),
        tree.tokens,
        PARENTS,
        None,
        seams.shape,
        seams.drafted_above,
    )
    sequence = Sequence("law", [0], params)

    def outcome(known: dict[int, float]) -> tuple[tuple[int, ...], int]:
        coins = LazyCoins(known, keys, int(final[0]))
        judged = Round(sequence, tree, 1, rows, coins)  # type: ignore[arg-type]  # lazy coins
        return outcome_of(judge(seams, judged, Thresholds()))

    return tree, integrate(outcome, _cuts(tree, expected_rows(params), disturbed=seams != Seams()))


@dataclass(slots=True)
class RememberedRows(TargetRows):
    """Shapes each row once, not once an outcome."""

    shaped: dict[int, Rows] = field(default_factory=dict)

    def distribution(self, node: int) -> Rows:
        if node not in self.shaped:
            self.shaped[node] = TargetRows.distribution(self, node)
        return self.shaped[node].copy()


def _cuts(tree: Tree, rows: Rows, *, disturbed: bool) -> Callable[[int], list[float]]:
    size = len(tree.tokens)
    grid = list(np.linspace(0, 1, NODE_GRID + 1)) if disturbed else []
    fine = list(np.linspace(0, 1, BONUS_GRID + 1)) if disturbed else []
    by_node = [grid + node_cuts(tree, rows, node) for node in range(size)]
    bonus = fine + [cut for node in range(size) for cut in bonus_cuts(tree, rows, node)]
    return lambda key: by_node[key] if key < size else bonus
