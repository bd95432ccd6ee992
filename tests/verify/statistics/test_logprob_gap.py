import numpy as np
import pytest

from specbench.verify.statistics.logprob_gap import (
    Margins,
    audit,
    excess_over_control,
    last_tokens_regret,
    margins_from_control,
    penalised_regret,
)
from specbench.verify.statistics.tokens import ScoredTokens, join
from tests.verify.statistics.synthetic import emit


def test_noise_leaves_no_doubtful_token() -> None:
    tokens = emit(4000, np.random.default_rng(1), temperature=0, noise=0.05)

    found = audit(tokens, Margins())

    assert len(found.hard) == len(found.soft) == 0
    assert found.worst < 0.5


def test_one_wrong_token_in_a_hundred_is_a_witness() -> None:
    def rare_fault(p: np.ndarray, g: np.random.Generator) -> int:
        return int(g.integers(len(p))) if g.random() < 0.01 else int(p.argmax())

    tokens = emit(1000, np.random.default_rng(2), temperature=0, draw=rare_fault)

    assert len(audit(tokens, Margins()).hard) >= 1


def test_garbage_bound_shrinks_with_the_sample() -> None:
    few = audit(emit(500, np.random.default_rng(3), temperature=0), Margins())
    many = audit(emit(5000, np.random.default_rng(3), temperature=0), Margins())

    assert few.garbage_upper_pct(0.99) == pytest.approx(0.921, abs=0.01)
    assert many.garbage_upper_pct(0.99) == pytest.approx(0.0921, abs=0.001)


def test_heavy_tailed_control_widens_the_margins_and_is_not_in_excess_of_itself() -> None:
    rng = np.random.default_rng(4)
    control = np.where(rng.random(5000) < 0.005, rng.exponential(0.5, 5000), 0.0)
    other = np.where(rng.random(5000) < 0.005, rng.exponential(0.5, 5000), 0.0)

    margins = margins_from_control(control)

    assert margins.hard >= 3.0
    assert margins.soft >= 0.3
    assert excess_over_control(other, control, margins.soft) > 0.01
    assert excess_over_control(other + (rng.random(5000) < 0.03) * 5, control, margins.soft) < 1e-9


def of_two(shares: list[float], token: list[int], round_index: list[int]) -> ScoredTokens:
    """One request in which every token was chosen between two, of the same shares each time."""
    n = len(token)
    top_logp = np.tile(np.log(shares), (n, 1))
    return ScoredTokens(
        request=np.zeros(n, np.int64),
        position=np.arange(n),
        token=np.array(token),
        logp=top_logp[np.arange(n), token],
        top_ids=np.tile([0, 1], (n, 1)),
        top_logp=top_logp,
        output_logp=np.full(n, np.nan),
        round_index=np.array(round_index),
    )


def penalised(stale: bool) -> ScoredTokens:
    """Two tokens tie but for a penalty of 1 nat a count; a round is two tokens long."""
    return of_two([0.6, 0.4], [0, 0, 1, 1] if stale else [0, 1, 0, 1], [0, 1, 0, 1])


def test_exact_penalties_leave_no_regret_and_stale_ones_are_explained_by_the_round() -> None:
    round_start = np.array([0, 0, 2, 2])

    exact, _ = penalised_regret(penalised(stale=False), 1.0, round_start)
    late, explained = penalised_regret(penalised(stale=True), 1.0, round_start)

    assert exact.max() == 0
    assert late.max() > 0.5
    assert explained.max() == 0


def test_a_server_that_counts_only_the_last_token_of_each_round_is_explained_by_that() -> None:
    # Rounds of three after the prefill's token: 0 is penalised as often as a round ended with it.
    tokens = of_two([0.7, 0.3], [0, 1, 1, 1, 0, 0, 0], [-1, 0, 1, 2, 0, 1, 2])

    late = last_tokens_regret(tokens, 2.0)
    exact, _ = penalised_regret(tokens, 2.0, np.array([0, 0, 0, 0, 1, 1, 1]))

    assert late[1:].max() == 0
    assert np.isinf(late[0])
    assert exact.max() > 1


def test_joining_keeps_requests_apart() -> None:
    part = emit(100, np.random.default_rng(5))

    whole = join([part, part])

    assert len(whole) == 200
    assert len(np.unique(whole.request)) == 2 * len(np.unique(part.request))
