import math

import pytest

from specbench.analysis.noise_floor import noise_floor, restart_allowance, trial_allowance
from specbench.stats.nesting import RESTART, TRIAL
from tests.analysis.frames import Side, recording


def test_replicates_of_one_arm_give_the_noise_of_the_host() -> None:
    trials, _, _ = recording(Side("ar", launches=40, trials=2, launch_sd=0.02))

    (floor,) = noise_floor(trials)

    assert floor.restart_pct == pytest.approx(2.0, rel=0.3)
    assert floor.trial_pct == pytest.approx(0.18, rel=0.5)
    assert (floor.restart_df, floor.trial_df, floor.launches) == (39, 40, 40)
    assert floor.resolvable_pct is not None


def test_other_cells_never_leak_into_the_noise() -> None:
    trials, _, _ = recording(
        Side("ar", launches=3, concurrency=(1, 64), launch_sd=0.0),
        Side("dflash", launches=3, accept_len=3, launch_sd=0.0),
    )

    (floor,) = noise_floor(trials)

    assert floor.cells == 3
    assert floor.restart_pct is not None
    assert floor.restart_pct < 0.5


def test_a_single_launch_says_nothing_about_restarts() -> None:
    trials, _, _ = recording(Side("ar", launches=1, trials=1))

    (floor,) = noise_floor(trials)

    assert (floor.restart_pct, floor.trial_pct, floor.resolvable_pct) == (None, None, None)
    assert restart_allowance([floor]) == RESTART
    assert trial_allowance([floor]) == TRIAL


def test_experience_is_pooled_by_its_degrees_of_freedom() -> None:
    trials, _, _ = recording(Side("ar", launches=40, launch_sd=0.004))
    (floor,) = noise_floor(trials)

    allowance = restart_allowance([floor])

    assert allowance.df == RESTART.df + 39
    assert 0.003 < allowance.sd < RESTART.sd
    assert math.isclose(
        allowance.sd**2 * allowance.df,
        RESTART.sd**2 * RESTART.df + ((floor.restart_pct or 0) / 100) ** 2 * 39,
    )
    assert "noise floor of this host" in allowance.source


def test_failed_trials_are_no_noise() -> None:
    trials, _, _ = recording(Side("ar", launches=3))
    trials.loc[0, ["status", "tok_s"]] = ["failed", 1.0]

    (floor,) = noise_floor(trials)

    assert floor.trials == 5
    assert floor.restart_pct is not None
    assert floor.restart_pct < 5
