"""One sequence's verification: which walk judges its tree, by its own sampling parameters."""

from specbench.engine.seams import Round, Seams
from specbench.engine.verify import Thresholds, Walk


def judge(seams: Seams, judged: Round, thresholds: Thresholds, *, blockwise: bool = False) -> Walk:
    """Return the accepted path and the bonus token.

    Greedy requests follow the argmax; sampled drafts are verified by p / q (as one block if
    `blockwise`), chosen drafts by the target's probabilities alone.
    """
    rows, coins = judged.rows, judged.coins
    if rows.params.greedy:
        walk = seams.greedy(judged.tree, rows.argmax)
    elif judged.proposal is None:
        walk = seams.sampling(judged.tree, rows.distribution, coins, thresholds)
    elif blockwise:
        walk = seams.block(judged.tree, rows.distribution, judged.proposal, coins)
    else:
        walk = seams.rejection(judged.tree, rows.distribution, judged.proposal, coins)
    return seams.walked(judged, walk)
