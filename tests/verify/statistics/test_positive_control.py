import numpy as np
import pytest

from specbench.verify.statistics.logprob_gap import Margins
from specbench.verify.statistics.positive_control import blind_spots
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
