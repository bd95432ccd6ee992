"""Plots, each a function of a recording or of its trials table."""

from pathlib import Path

import pandas as pd

from specbench.report.plots.overview import overview
from specbench.report.theme import save, using

__all__ = ["overview", "save", "using", "write_overview"]


def write_overview(trials: pd.DataFrame, folder: Path) -> tuple[Path, Path]:
    """Write `overview.svg` and `overview.png` into `folder`; give the two paths."""
    with using("light"):
        return save(overview(trials), folder, "overview")
