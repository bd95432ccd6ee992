import math

import pytest

from specbench.analysis.noise_floor import launch_floor, noise_floor
from tests.analysis.frames import Side, recording


def test_replicates_of_one_arm_give_the_noise_of_the_host() -> None:
    trials, requests, _ = recording(Side("ar", launches=40, trials=2, launch_sd=0.02))

    (floor,) = noise_floor(trials, requests, arm="ar")

    assert floor.launch.pct == pytest.approx(2.0, rel=0.3)
    assert floor.request.pct == pytest.approx(1.0, rel=0.2)
    assert (floor.launch.df, floor.trial.df, floor.launches) == (39, 40, 40)
    assert (floor.arm, floor.levels) == ("ar", ("algorithm=ar", "concurrency=1"))
    assert floor.resolvable_pct is not None


def test_the_noise_of_requests_is_no_noise_of_trials() -> None:
    trials, requests, _ = recording(Side("ar", launches=40, trials=2, launch_sd=0.02))

    (floor,) = noise_floor(trials, requests)

    assert floor.trial.low_pct == 0.0
    assert floor.trial.pct is not None
    assert floor.trial.pct < 0.15


@pytest.mark.parametrize("truth", [1.0, 3.0])
def test_the_interval_of_each_part_holds_the_truth(truth: float) -> None:
    held = []
    for seed in range(20):
        side = Side("ar", launches=6, trials=2, launch_sd=truth / 100)
        trials, requests, _ = recording(side, seed=seed)
        (floor,) = noise_floor(trials, requests)
        held.append((floor.launch.low_pct or 0) <= truth <= (floor.launch.high_pct or 0))

    assert sum(held) >= 17


def test_other_cells_never_leak_into_the_noise() -> None:
    trials, requests, _ = recording(
        Side("ar", launches=3, concurrency=(1, 64), launch_sd=0.0),
        Side("dflash", launches=3, accept_len=3, launch_sd=0.0),
    )

    (floor,) = noise_floor(trials, requests)

    assert floor.cells == 3
    assert floor.launch.pct is not None
    assert floor.launch.pct < 0.5


def test_cells_of_the_same_launches_count_their_launches_once() -> None:
    trials, requests, _ = recording(Side("ar", launches=5, concurrency=(1, 4, 16)))

    (floor,) = noise_floor(trials, requests)

    assert floor.launch.df == 4


def test_a_single_launch_says_nothing_about_restarts() -> None:
    trials, requests, _ = recording(Side("ar", launches=1, trials=1))

    (floor,) = noise_floor(trials, requests)

    assert (floor.launch.pct, floor.trial.pct, floor.resolvable_pct) == (None, None, None)
    assert launch_floor([floor]) is None


def test_experience_is_pooled_by_its_degrees_of_freedom() -> None:
    floors = [
        noise_floor(*recording(Side("ar", launches=n, launch_sd=sd))[:2])[0]
        for n, sd in ((40, 0.004), (3, 0.02))
    ]

    known = launch_floor(floors)

    assert known is not None
    assert known.df == 41
    assert math.isclose(
        known.sd**2 * known.df,
        sum((floor.launch.pct or 0) ** 2 * floor.launch.df / 1e4 for floor in floors),
    )
    assert "noise floor of this host" in known.source


def test_failed_trials_are_no_noise() -> None:
    trials, requests, _ = recording(Side("ar", launches=3))
    trials.loc[0, "status"] = "failed"
    trials.loc[0, "tok_s"] = 1.0

    (floor,) = noise_floor(trials, requests)

    assert floor.trials == 5
    assert floor.launch.pct is not None
    assert floor.launch.pct < 5
