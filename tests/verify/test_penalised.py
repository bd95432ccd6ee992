import numpy as np
import pytest

from specbench.verify.statistics.penalised import Counting, penalised
from specbench.verify.statistics.tokens import ScoredTokens

A, B, C = 1, 2, 3


def table() -> ScoredTokens:
    """One request that emitted A, A, B, A in rounds of one and two tokens; A leads B by 1 nat."""
    n = 4
    return ScoredTokens(
        request=np.zeros(n, np.int64),
        position=np.arange(n),
        token=np.array([A, A, B, A]),
        logp=np.array([-1.0, -1.0, -2.0, -1.0]),
        top_ids=np.array([[A, B]] * n),
        top_logp=np.array([[-1.0, -2.0]] * n),
        output_logp=np.full(n, np.nan),
        round_index=np.array([-1, 0, 0, 1]),
    )


@pytest.mark.parametrize(
    ("counting", "worth_of_a"),
    [
        ("answer", [0, 2, 4, 4]),
        ("window", [2, 4, 6, 6]),
        ("round", [0, 2, 4, 4]),
        ("last", [0, 2, 4, 4]),
    ],
)
def test_what_is_counted_is_taken_off(counting: Counting, worth_of_a: list[int]) -> None:
    judged, worth = penalised(table(), 2.0, counting, [(A, C)])

    of_a = [row[ids.tolist().index(A)] for row, ids in zip(worth, judged.top_ids, strict=True)]
    assert of_a == worth_of_a
    assert np.allclose(judged.logp, judged.top_logp[judged.top_ids == judged.token[:, None]])


def test_ranks_follow_the_penalised_scores_and_the_regret_with_them() -> None:
    judged, _ = penalised(table(), 2.0, "answer", [()])

    assert judged.top_ids[:, 0].tolist() == [A, B, B, B]
    assert judged.regret.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_a_penalty_that_is_not_applied_leaves_scores_and_says_what_it_would_be_worth() -> None:
    judged, worth = penalised(table(), 2.0, "answer", [()], applied=0.0)

    assert judged.top_logp.tolist() == table().top_logp.tolist()
    assert worth[:, 0].tolist() == [0.0, 2.0, 4.0, 4.0]
