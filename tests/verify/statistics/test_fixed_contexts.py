import numpy as np

from specbench.verify.statistics.fixed_contexts import (
    Context,
    find_contexts,
    one_sample,
    two_sample,
)
from tests.verify.statistics.synthetic import emit, perturb

ROW = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.03, 0.01])


def contexts(n: int) -> list[Context]:
    found = find_contexts(emit(20_000, np.random.default_rng(1)), n)
    assert len(found) == n
    return found


def draw(context: Context, n: int, rng: np.random.Generator, bias: float = 0.0) -> list[int]:
    """Sample the open token; `bias` moves mass from the second to the third rank."""
    p = np.append(context.probs, max(1 - context.probs.sum(), 0))
    moved = bias * p[1]
    p = p + np.eye(len(p))[2] * moved - np.eye(len(p))[1] * moved
    names = np.append(context.ids, -7)
    return [int(names[k]) for k in rng.choice(len(p), size=n, p=p / p.sum())]


def test_contexts_have_a_certain_token_and_then_an_open_one() -> None:
    for context in contexts(12):
        p = context.probs[context.probs > 0]
        assert context.certain_p > 0.8
        assert 0.7 < float(-(p * np.log(p)).sum()) < 2.5


def test_honest_draws_with_frozen_kernel_noise_are_not_rejected() -> None:
    chosen, small = contexts(12), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        draws = [list(rng.choice(np.append(c.ids, -7), size=192, p=_noisy(c, rng))) for c in chosen]
        p = one_sample(chosen, draws).p
        small += p is not None and p < 0.01

    assert small <= 3


def _noisy(context: Context, rng: np.random.Generator) -> np.ndarray:
    p = np.append(context.probs, max(1 - context.probs.sum(), 1e-9))
    return perturb(p / p.sum(), 0.03, rng)


def test_a_bias_between_two_ranks_is_found_by_both_forms() -> None:
    rng = np.random.default_rng(2)
    chosen = contexts(24)
    verified = [draw(c, 192, rng, bias=0.35) for c in chosen]
    prefilled = [draw(c, 192, rng) for c in chosen]

    assert (one_sample(chosen, verified).p or 1) < 1e-6
    assert (two_sample(verified, prefilled).p or 1) < 1e-3
    assert (two_sample(prefilled, [draw(c, 192, rng) for c in chosen]).p or 0) > 0.01


def test_nothing_drawn_gives_no_p_value() -> None:
    assert one_sample(contexts(2), [[], []]).p is None
    assert two_sample([[]], [[]]).p is None
