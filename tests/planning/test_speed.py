"""The cost of planning is linear in the cells (benchmarks/plan_speed.py has the seconds)."""

import time

from specbench import planning
from specbench.model.host import Host
from tests.planning.matrices import matrix_of


def cost_of(levels: int) -> float:
    """Return the processor seconds of a plan, the least of three."""
    factors = {**matrix_of().factors, "concurrency": tuple(range(1, levels + 1))}
    matrix = matrix_of(factors, exclude=("budget == 16 and concurrency == 3",))
    costs = []
    for _ in range(3):
        start = time.process_time()
        planning.plan(matrix, planning.expand(matrix), {"local": Host(name="local")})
        costs.append(time.process_time() - start)
    return min(costs)


def test_eight_times_the_cells_cost_far_less_than_the_square() -> None:
    few, many = cost_of(50), cost_of(400)

    assert many < 24 * few
