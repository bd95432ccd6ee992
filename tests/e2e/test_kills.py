"""Commands ended at random instants: a part of `python -m benchmarks.kills`."""

import random

import pytest

from benchmarks.kills import Tally, attack
from benchmarks.scenes import Report, Run, Scene

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize("kind", [Run, Report])
def test_a_command_killed_at_any_instant_loses_nothing_and_leaves_nothing(
    kind: type[Scene],
) -> None:
    tally = Tally()

    attack(kind, 2, random.Random(5), tally)

    assert tally.failures == []
    assert sum(tally.kills.values()) >= 2
