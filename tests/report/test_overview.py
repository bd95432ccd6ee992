"""The plot of a run shows every measured series, and says what it holds."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from specbench.report import plots
from tests.report.synthetic import grid, table, trial


def _lines(axes: Axes) -> dict[str, np.ndarray]:
    return {
        str(line.get_label()): np.asarray(line.get_ydata(), dtype=float)
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }


def test_one_column_a_temperature_and_one_line_a_server() -> None:
    axes = plots.overview(table(grid())).axes

    assert [one.get_title(loc="left") for one in axes[:2]] == ["temperature 0", "temperature 1"]
    assert set(_lines(axes[0])) == {"ar", "dflash", "ddtree"}


def test_lines_go_through_the_means_of_the_trials() -> None:
    rows = [trial(concurrency=8, replicate=r, tok_s=tok_s) for r, tok_s in enumerate((90.0, 110.0))]

    axes = plots.overview(table(rows)).axes

    assert _lines(axes[0])["ar"] == pytest.approx([100.0])


def test_failed_trials_are_not_drawn() -> None:
    rows = [trial(tok_s=100.0), trial(replicate=1, tok_s=900.0, status="failed")]

    axes = plots.overview(table(rows)).axes

    assert _lines(axes[0])["ar"] == pytest.approx([100.0])


def test_the_caption_says_n_and_what_was_held() -> None:
    figure = plots.overview(table(grid(temperatures=(0.0,))))

    caption = " ".join(figure.get_supxlabel().split())
    assert "n = 54 trials in 6 launches" in caption
    assert "temperature=0" in caption


def test_variants_of_an_algorithm_differ_without_colour() -> None:
    rows = [
        trial(algorithm="ddtree", budget=budget, cell_id=f"b{budget}", concurrency=c)
        for budget in (7, 16, 32)
        for c in (1, 8)
    ]

    lines = plots.overview(table(rows)).axes[0].get_lines()
    named = [line for line in lines if str(line.get_label()).startswith("ddtree")]

    assert len({(line.get_marker(), line.get_linestyle()) for line in named}) == 3


def test_a_run_without_a_usable_trial_still_gives_a_figure(tmp_path: Path) -> None:
    vector, pixels = plots.write_overview(table([trial(status="failed", tok_s=None)]), tmp_path)

    assert vector.read_text(encoding="utf-8").startswith("<?xml")
    assert pixels.read_bytes().startswith(b"\x89PNG")


def test_equal_tables_give_equal_pictures(tmp_path: Path) -> None:
    first, _ = plots.write_overview(table(grid()), tmp_path / "a")
    second, _ = plots.write_overview(table(grid()), tmp_path / "b")

    assert first.read_bytes() == second.read_bytes()
