"""`specbench import` writes rows that `compare` and `report` read."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specbench.cli.main import app
from specbench.errors import InputError

RECORDING = Path(__file__).parents[1] / "fixtures" / "recordings" / "schema-1-before-codes"


def line(algorithm: str, throughput: float) -> str:
    return json.dumps(
        {
            "max_concurrency": 8,
            "server_info": {"version": "0.5", "speculative_algorithm": algorithm},
            "output_throughput": throughput,
            "mean_e2e_latency_ms": 100.0,
            "accept_length": 2.0,
        }
    )


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    source = tmp_path / "bench.jsonl"
    source.write_text(f"{line('EAGLE', 100.0)}\n{line('DFLASH', 150.0)}\n", encoding="utf-8")
    folder = tmp_path / "imported"
    result = CliRunner().invoke(app, ["import", str(source), "-o", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def test_terminal_codes_in_a_file_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    source = tmp_path / "bench.jsonl"
    hostile = json.loads(line("EAGLE", 100.0))
    hostile["server_info"]["version"] = "0.5\x1b[2J\u202e"
    source.write_text(json.dumps(hostile), encoding="utf-8")

    result = CliRunner().invoke(app, ["import", str(source), "-o", str(tmp_path / "imported")])

    assert result.exit_code == 0, result.output
    assert r"0.5\u001b[2J\u202e" in result.stdout
    assert "\x1b" not in result.stdout


def test_imported_rows_are_compared_by_the_same_command(imported: Path) -> None:
    asked = ["compare", "eagle", "dflash", "--recording", str(imported), "--json"]

    result = CliRunner().invoke(app, asked)

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["matched"][0]["ratio"] == pytest.approx(1.5)


def test_an_imported_figure_of_another_definition_is_not_compared_with_a_recording(
    imported: Path,
) -> None:
    asked = ["compare", "ar", "dflash", "--recording", str(imported), "--baseline", str(RECORDING)]

    result = CliRunner().invoke(app, asked)

    assert isinstance(result.exception, InputError)
    assert "tok_s/wall-with-status" in str(result.exception)


def test_a_gate_on_imported_rows_is_refused(imported: Path) -> None:
    asked = ["compare", "eagle", "dflash", "--recording", str(imported), "--fail-if", "speedup < 1"]

    result = CliRunner().invoke(app, asked)

    assert isinstance(result.exception, InputError)
    assert "--fail-if" in str(result.exception)


def test_the_report_of_imported_rows_marks_what_is_defined_otherwise(imported: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(imported)])

    page = (imported / "imported.md").read_text(encoding="utf-8")
    assert result.exit_code == 0, result.output
    assert "100 ≠" in page
    assert "`accept/lifetime`" in page
