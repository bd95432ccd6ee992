"""How long 100,000 cells take to expand, name and order: python benchmarks/plan_speed.py [CELLS].

Exit status 1 when expanding and planning 100,000 cells takes 2 s of processor time or more.
"""

import sys
import time

import msgspec

from specbench import config, planning
from specbench.backends.sglang.rules import invalid_reason
from specbench.model.host import Host
from specbench.model.matrix import Matrix

LIMIT_S = 2.0
MATRIX = """
name: large
model: {path: m, served_name: m}
factors:
  algorithm: [ar, dflash, ddtree]
  budget: [7, 16, 32, 64]
  topk: [1, 2, 4, 8]
  tp: [1, 2, 4, 8]
  temperature: [0.0, 0.3, 0.6, 1.0]
  top_p: [0.9, 1.0]
  concurrency: [1]
exclude: ["algorithm == 'ddtree' and budget == 64 and topk == 8"]
"""


def matrix_of(cells: int) -> Matrix:
    """Return a matrix of at least that many cells, mixed as real ones are."""
    matrix = config.parse_matrix(MATRIX)
    each = len(planning.expand(matrix))
    levels = tuple(range(1, -(-cells // each) + 1))
    return msgspec.structs.replace(matrix, factors={**matrix.factors, "concurrency": levels})


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    matrix = matrix_of(wanted)

    start = time.process_time()
    cells = planning.expand(matrix, invalid_reason=invalid_reason)
    expanded = time.process_time()
    plan = planning.plan(matrix, cells, {"local": Host(name="local")})
    ordered = time.process_time()

    print(f"{len(cells):,} cells, {len(plan.trials):,} trials, {plan.launches} launches")
    print(f"expand {expanded - start:.2f} s, plan {ordered - expanded:.2f} s of processor time")
    sys.exit(1 if wanted == 100_000 and ordered - start >= LIMIT_S else 0)


if __name__ == "__main__":
    main()
