"""Expand the matrix, order it into blocks, decide what is still to be measured."""

from specbench.planning.expand import asked, expand, launch_spec, only, requests_of, workload
from specbench.planning.explain import Explanation, explain
from specbench.planning.plan import plan

__all__ = [
    "Explanation",
    "asked",
    "expand",
    "explain",
    "launch_spec",
    "only",
    "plan",
    "requests_of",
    "workload",
]
