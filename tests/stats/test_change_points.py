"""Change points: found where the level changes, rarely where it does not."""

import numpy as np
import pytest

from specbench.stats.change_points import change_points


def _series(*levels: tuple[float, int], noise: float = 0.02, seed: int = 1) -> list[float]:
    rng = np.random.default_rng(seed)
    return [level * float(np.exp(rng.normal(0, noise))) for level, n in levels for _ in range(n)]


def test_two_steps_are_found_at_their_places() -> None:
    found = change_points(_series((100, 12), (80, 12), (120, 12)))

    assert [point.index for point in found] == [12, 24]
    assert [point.ratio for point in found] == pytest.approx([0.8, 1.5], rel=0.05)


def test_false_alarms_are_as_rare_as_alpha_says() -> None:
    alarms = sum(bool(change_points(_series((100, 16), seed=s), alpha=0.05)) for s in range(60))

    assert alarms <= 8  # binomial(60, 0.05): P(more than 8) < 0.003


def test_a_single_outlier_is_no_change_of_level() -> None:
    values = _series((100, 10))
    values[4] = 40.0

    assert change_points(values) == []


def test_short_series_have_no_change_points() -> None:
    assert change_points([100.0, 100.0, 10.0, 10.0]) == []
    assert change_points([]) == []


def test_the_answer_does_not_depend_on_the_unit() -> None:
    values = _series((100, 8), (70, 8))

    in_other_unit = change_points([value * 1000 for value in values])

    assert [p.index for p in in_other_unit] == [p.index for p in change_points(values)]


def test_values_that_have_no_logarithm_are_refused() -> None:
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="positive"):
        change_points([1.0, 0.0])
