from dataclasses import replace

import numpy as np

from specbench.verify.statistics.independence import agreement
from specbench.verify.statistics.scores import Score
from specbench.verify.statistics.shaping import Filters, shape
from specbench.verify.statistics.tokens import ScoredTokens
from tests.verify.statistics.synthetic import VOCAB, conditionals


def side_by_side(rng: np.random.Generator, *, shared: bool) -> ScoredTokens:
    """24 requests of one prompt, 12 tokens each; conditionals depend on the position alone."""
    rows = conditionals(12, rng)
    requests, steps = 24, 12
    p = np.tile(rows, (requests, 1))
    coins = np.tile(rng.random(steps), requests) if shared else rng.random(requests * steps)
    token = (coins[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, VOCAB - 1)
    logs = np.log(p)
    order = np.argsort(-p, axis=1, kind="stable")[:, :20]
    return ScoredTokens(
        request=np.repeat(np.arange(requests), steps),
        position=np.tile(np.arange(steps), requests),
        token=token,
        logp=logs[np.arange(len(p)), token],
        top_ids=order,
        top_logp=np.take_along_axis(logs, order, axis=1),
        output_logp=np.full(len(p), np.nan),
        round_index=np.full(len(p), -1),
    )


def scored(tokens: ScoredTokens) -> Score:
    return agreement(tokens, shape(tokens, Filters()))


def test_independent_coins_agree_as_often_as_their_distribution_says() -> None:
    zs = [scored(side_by_side(np.random.default_rng(s), shared=False)).z for s in range(60)]

    assert abs(float(np.nanmean(zs))) < 0.4
    assert float(np.nanstd(zs)) < 1.5


def test_one_coin_for_the_whole_batch_is_seen_though_every_marginal_is_right() -> None:
    z = scored(side_by_side(np.random.default_rng(7), shared=True)).z

    assert z > 6


def test_requests_without_a_common_prefix_say_nothing() -> None:
    tokens = side_by_side(np.random.default_rng(8), shared=False)
    apart = replace(tokens, token=tokens.token + 1000 * tokens.request)

    assert len(scored(apart).variance) == 0
