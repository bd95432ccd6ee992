"""What a notebook shows of a recording and of a comparison, with everything escaped."""

from pathlib import Path

import pytest

import specbench
from benchmarks.report_speed import write_recording
from specbench.analysis.compare import compare
from specbench.report import plots, theme
from specbench.report.notebook import for_notebook
from specbench.workflows.recording_open import open_recording
from tests.report.synthetic import clean


def test_a_recording_shows_its_trials_as_a_table(tmp_path: Path) -> None:
    root = tmp_path / "<b>hostile"
    write_recording(root, trials=3, requests=4)

    shown = open_recording(root)._repr_html_()

    assert "<b>&lt;b&gt;hostile" in shown
    assert shown.count("<tr>") == 3
    assert "accept_len" in shown


def test_a_recording_without_a_trial_shows_itself_too(tmp_path: Path) -> None:
    root = tmp_path / "empty"
    write_recording(root, trials=0, requests=0)

    recording = open_recording(root)

    assert "0 timed trials" in recording._repr_html_()
    assert repr(recording) == "<Recording empty: begun 2026-01-01 00:00, 0 trials sealed, 0 ok>"


def test_a_newcomer_sees_the_names_of_the_python_api() -> None:
    assert dir(specbench) == ["__version__", "compare", "open", "plots", "run"]


def test_panels_show_the_chosen_levels_and_leave_legend_and_caption_to_the_caller() -> None:
    mine = theme.new_axes()

    plots.throughput(clean(), axes=mine, where={"temperature": 1.0})

    labels = {str(line.get_label()) for line in mine.get_lines()}
    assert {"ar", "dflash", "ddtree"} <= labels
    assert mine.get_legend() is None
    assert mine.figure.get_supxlabel() == ""


def test_a_comparison_shows_each_cell_with_its_interval() -> None:
    evidence = clean()

    found = compare(evidence.trials, evidence.requests, evidence.blocks, "ar", "dflash")

    head, *lines = repr(found).splitlines()
    assert head == "<Comparison of tok_s: dflash over ar; 5 faster, 1 inconclusive>"
    assert all("[" in line for line in lines)
    assert sum(line.endswith(" faster") for line in lines) == 5
    page = for_notebook(found)._repr_html_()
    assert page.count("<td>faster</td>") == 5
    assert "dflash is faster than ar" in page


@pytest.mark.parametrize("name", ["throughput", "speedup", "pareto", "accept_len", "latency"])
def test_a_plot_of_the_python_api_returns_labelled_axes_with_n_in_the_caption(name: str) -> None:
    axes = getattr(plots, name)(clean())

    figure = axes.get_figure(root=True)

    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert "n = " in figure.get_supxlabel()


def test_a_figure_shows_itself_in_a_notebook_without_pyplot() -> None:
    figure = plots.overview(clean().trials)

    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # IPython's


def test_intervals_are_drawn_around_every_speed_up() -> None:
    axes = plots.speedup(clean())

    assert len(axes.containers) == 12


def test_names_with_dollar_signs_and_other_scripts_can_be_drawn(tmp_path: Path) -> None:
    rows = [{**row, "algorithm": "猫 $x_$"} if row["algorithm"] == "dflash" else row
            for row in clean().trials.to_dict("records")]  # fmt: skip
    trials = clean().trials.assign(algorithm=[row["algorithm"] for row in rows])

    vector, pixels = plots.write_overview(trials, tmp_path)

    assert "猫 $x_$" in vector.read_text(encoding="utf-8")
    assert pixels.stat().st_size > 1000
