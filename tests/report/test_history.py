"""A change of level over weeks is found where there is one, and not invented elsewhere."""

import numpy as np
import pandas as pd
import pytest

from specbench.report.history import history, trends
from tests.report.synthetic import clean, trial


def _weeks(levels: list[float]) -> list:  # type: ignore[type-arg]  # evidence, one a week
    return [
        clean(
            [
                trial(
                    tok_s=level,
                    block_id=f"b{week}",
                    trial_id=f"t{week}",
                    started_at=f"2026-{1 + week // 28:02d}-{1 + week % 28:02d}T00:00:00",
                )
            ],
            name=f"week-{week:02d}",
            requests=pd.DataFrame(),
        )
        for week, level in enumerate(levels)
    ]


def _noisy(levels: list[float]) -> list[float]:
    wobble = (0.4, -0.7, 0.2, 0.9, -0.3, -0.5, 0.6, -0.1, 0.3, -0.8)
    return [level * (1 + 0.01 * wobble[i % 10]) for i, level in enumerate(levels)]


def test_a_regression_is_dated_between_its_neighbours() -> None:
    (trend,) = trends(_weeks(_noisy([100.0] * 9 + [90.0] * 9)))

    (change,) = trend.changes
    text = trend.statements()[0].text

    assert change.index == 9
    assert change.ratio == pytest.approx(0.9, rel=0.02)
    assert "between 2026-01-09 (week-08) and 2026-01-10 (week-09)" in text


def test_noise_without_a_change_makes_no_claim() -> None:
    (trend,) = trends(_weeks(_noisy([100.0] * 18)))

    assert trend.changes == ()
    assert trend.statements()[0].kind == "withheld"


def test_few_launches_make_no_claim_however_large_the_step() -> None:
    (trend,) = trends(_weeks([100.0, 100.0, 50.0, 50.0]))

    assert trend.statements()[0].kind == "withheld"
    assert "too few" in trend.statements()[0].text


def test_the_plot_shows_one_point_a_launch() -> None:
    weeks = _weeks(_noisy([100.0] * 6))

    axes = history(weeks, cell_id=str(weeks[0].trials["cell_id"].iloc[0]))

    assert np.size(axes.lines[0].get_xdata()) == 6
