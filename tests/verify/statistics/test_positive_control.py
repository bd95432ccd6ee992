import numpy as np
import pytest

from specbench.verify.statistics import exchange
from specbench.verify.statistics.logprob_gap import Margins
from specbench.verify.statistics.positive_control import blind_spots, blind_spots_of_draws
from tests.verify.statistics.synthetic import VOCAB, emit


def test_every_tampering_is_seen_on_ordinary_data() -> None:
    greedy = emit(1500, np.random.default_rng(1), temperature=0)
    sampled = emit(3000, np.random.default_rng(2))

    assert blind_spots(greedy, sampled, VOCAB, 0, Margins()) == []


def test_an_unknown_vocabulary_does_not_blind_the_check_for_garbage() -> None:
    greedy = emit(1500, np.random.default_rng(1), temperature=0)
    sampled = emit(3000, np.random.default_rng(2))

    assert blind_spots(greedy, sampled, 2**18, 0, Margins()) == []


@pytest.mark.parametrize("margin", [50.0])
def test_a_test_that_cannot_reject_is_reported(margin: float) -> None:
    greedy = emit(1500, np.random.default_rng(1), temperature=0)
    sampled = emit(3000, np.random.default_rng(2))

    missed = blind_spots(greedy, sampled, VOCAB, 0, Margins(soft=margin, hard=margin))

    assert any("regret audit" in text for text in missed)


def test_data_without_any_entropy_is_reported_as_blind() -> None:
    certain = emit(1500, np.random.default_rng(3), temperature=0)
    flat = np.full_like(certain.top_logp, -40.0)
    flat[:, 0] = 0.0
    frozen = type(certain)(
        **{
            **{f: getattr(certain, f) for f in certain.__dataclass_fields__},
            "top_logp": flat,
            "logp": np.zeros(len(certain)),
        }
    )

    assert len(blind_spots(certain, frozen, VOCAB, 0, Margins())) >= 2


def test_draws_that_cannot_see_a_fault_are_a_blind_spot_and_open_ones_are_none() -> None:
    rng = np.random.default_rng(0)
    open_ones = [rng.choice(6, 200, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05]).tolist() for _ in range(20)]
    settled = [[0] * 200 for _ in range(20)]

    seen = blind_spots_of_draws(exchange.strata(open_ones[::2], open_ones[1::2]), 0)
    blind = blind_spots_of_draws(exchange.strata(settled[::2], settled[1::2]), 0)

    assert seen == []
    assert len(blind) == 2
