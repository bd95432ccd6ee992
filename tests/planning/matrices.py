"""Matrices for the laws of planning."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from specbench.config import parse_matrix
from specbench.model.matrix import Level, Matrix, Replicates

BASE = """\
name: m
model: {path: p, served_name: s}
factors:
  algorithm: [ar, dflash, ddtree]
  budget: [7, 16]
  topk: [1, 4]
  tp: [1, 2]
  temperature: [0.0, 1.0]
  concurrency: [1, 8]
"""


few = settings(max_examples=25)
"""A whole matrix is large: fewer of them say as much."""


def matrix_of(factors: dict[str, tuple[Level, ...]] | None = None, **changes: Any) -> Matrix:
    """Return the base matrix with factors and sections exchanged."""
    base = parse_matrix(BASE, "m.yaml")
    return msgspec.structs.replace(
        base, factors=base.factors if factors is None else factors, **changes
    )


def subsets(levels: tuple[Level, ...]) -> st.SearchStrategy[tuple[Level, ...]]:
    """Return non-empty selections of levels, in any order."""
    return st.lists(st.sampled_from(levels), min_size=1, unique=True).map(tuple)


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Return matrices of up to some hundred cells, with and without expressions."""
    factors: dict[str, tuple[Level, ...]] = {
        "algorithm": draw(subsets(("ar", "dflash", "ddtree", "eagle", "ngram"))),
        "budget": draw(subsets((3, 7, 16))),
    }
    for name, levels in (
        ("topk", (1, 4, None)),
        ("tp", (1, 2)),
        ("cuda_graph", (True, False)),
        ("temperature", (0.0, 1.0)),
        ("concurrency", (1, 8, 64)),
    ):
        if draw(st.booleans()):
            factors[name] = draw(subsets(levels))
    names = draw(st.permutations(list(factors)))
    exclude = draw(
        st.sampled_from([(), ("budget == 7",), ("algorithm == 'dflash' and budget > 3",)])
    )
    chain = {"budget": "topk != none", "topk": "tp == 2"} if {"topk", "tp"} <= set(factors) else {}
    when = draw(st.sampled_from([{}, {"budget": "algorithm != 'ngram'"}, chain]))
    return matrix_of(
        {name: factors[name] for name in names},
        exclude=exclude,
        when=when,
        seed=draw(st.integers(0, 5)),
        replicates=Replicates(launches=draw(st.integers(1, 3)), trials=draw(st.integers(1, 3))),
        verify=draw(st.sampled_from([None, "quick"])),
    )
