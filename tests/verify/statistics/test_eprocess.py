import numpy as np

from specbench.verify.statistics.eprocess import e_process
from specbench.verify.statistics.shaping import Filters, shape
from tests.verify.statistics.synthetic import VOCAB, emit


def test_wealth_of_an_honest_sampler_rarely_reaches_the_bar() -> None:
    crossed = 0
    for seed in range(100):
        tokens = emit(300, np.random.default_rng(seed), noise=0.02)
        crossed += (
            e_process(shape(tokens, Filters()), tokens.logp, VOCAB, 0.05).crossed_at is not None
        )

    assert crossed <= 9


def test_mean_wealth_of_an_honest_sampler_is_at_most_one() -> None:
    finals = []
    for seed in range(200):
        tokens = emit(20, np.random.default_rng(seed))
        finals.append(e_process(shape(tokens, Filters()), tokens.logp, VOCAB, 1e-9).log_max)

    assert float(np.mean(np.exp(finals) > 20)) <= 0.06


def test_greedy_sampling_makes_the_bettor_rich_within_a_hundred_tokens() -> None:
    tokens = emit(300, np.random.default_rng(3), draw=lambda p, _: int(p.argmax()))

    found = e_process(shape(tokens, Filters()), tokens.logp, VOCAB, 0.004)

    assert found.crossed_at is not None
    assert found.crossed_at < 100
    assert "greedy" in found.best or "temperature" in found.best


def test_one_percent_uniform_tokens_are_found_by_the_uniform_bet() -> None:
    def garbled(p: np.ndarray, g: np.random.Generator) -> int:
        return int(g.integers(len(p))) if g.random() < 0.02 else int(g.choice(len(p), p=p))

    tokens = emit(3000, np.random.default_rng(4), draw=garbled)

    found = e_process(shape(tokens, Filters()), tokens.logp, VOCAB, 0.004)

    assert found.crossed_at is not None
