"""Expand the matrix, order it into blocks, decide what is still to be measured."""

from specbench.planning.expand import expand, launch_spec, only, sampling, shape, workload
from specbench.planning.explain import Explanation, explain
from specbench.planning.plan import plan

__all__ = [
    "Explanation",
    "expand",
    "explain",
    "launch_spec",
    "only",
    "plan",
    "sampling",
    "shape",
    "workload",
]
