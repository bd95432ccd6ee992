import math

import numpy as np
import pytest

from specbench.stats.family import group_of, judged_together
from specbench.stats.launches import CLOCKS, noise_of
from specbench.stats.pooled import Answered, differ, pool
from tests.stats.test_launches import pairs


def answered(gains: list[float], launches: int = 4) -> list[Answered]:
    cells = [pairs(launches, 2, prompts=40, seed=i, gain=gain) for i, gain in enumerate(gains)]
    noises = [noise_of(cell) for cell in cells]
    group = group_of(cells, noises, CLOCKS)
    return [
        Answered(
            value=float(cell.value.mean()), group=group, source=0, sides=("a", "b"), noise=noise
        )
        for cell, noise in zip(cells, noises, strict=True)
    ]


def test_one_cell_pools_to_itself() -> None:
    one = answered([0.1])

    pooled = pool(one)

    assert pooled.this.value == one[0].value
    assert pooled.cells is None
    assert pooled.spread is None


def test_the_error_of_launches_is_not_averaged_over_cells_of_the_same_launches() -> None:
    cells = answered([0.0] * 12)

    pooled = pool(cells)

    assert pooled.this.common.value == pytest.approx(cells[0].group.common.value)
    assert pooled.this.own.value < cells[0].noise.requests.value + cells[0].group.own.value


def test_cells_that_differ_widen_what_is_said_of_such_cells() -> None:
    alike, apart = pool(answered([0.05] * 6)), pool(answered([-0.3, 0.4, 0.0, 0.2, -0.1, 0.1]))

    assert alike.cells is not None
    assert apart.cells is not None
    assert apart.cells.se > 2 * alike.cells.se
    assert apart.spread == pytest.approx(0.25, rel=0.3)


def test_equal_levels_are_not_told_apart_and_different_ones_are() -> None:
    members = [pool(part).this for part in (answered([0.0] * 4), answered([0.5] * 4))]

    assert differ([members[0], members[0]]) > 0.5
    assert differ(members) < 0.01


def test_a_shared_prompt_is_one_unit_in_all_cells() -> None:
    cells = answered([0.0] * 8)
    same = [Answered(value=one.value, group=one.group, source=0, sides=one.sides,
                     noise=cells[0].noise) for one in cells]  # fmt: skip

    pooled = pool(same)

    assert pooled.such.own.value >= cells[0].noise.prompts.value


def test_a_family_of_one_needs_no_correction() -> None:
    (judged,) = judged_together([pool(answered([0.2])).this])

    assert judged.p == judged.p_adjusted
    assert math.isclose(judged.half, judged.effect.half_width())
    assert np.isfinite(judged.half)
