"""Plots, each a function of a recording that returns its Axes (`overview` returns a Figure)."""

from pathlib import Path

import pandas as pd

from specbench.report.history import history
from specbench.report.plots.acceptance import (
    accept_len,
    acceptance_by_position,
    acceptance_histogram,
)
from specbench.report.plots.comparison import comparison
from specbench.report.plots.latency import latency
from specbench.report.plots.lossless import lossless
from specbench.report.plots.machine import gpu, load_phases
from specbench.report.plots.overview import overview
from specbench.report.plots.speed import decomposition, pareto, per_user, speedup, throughput
from specbench.report.theme import save, using

__all__ = [
    "accept_len",
    "acceptance_by_position",
    "acceptance_histogram",
    "comparison",
    "decomposition",
    "gpu",
    "history",
    "latency",
    "load_phases",
    "lossless",
    "overview",
    "pareto",
    "per_user",
    "save",
    "speedup",
    "throughput",
    "using",
    "write_overview",
]


def write_overview(trials: pd.DataFrame, folder: Path) -> tuple[Path, Path]:
    """Write `overview.svg` and `overview.png` into `folder`; give the two paths."""
    with using("light"):
        return save(overview(trials), folder, "overview")
