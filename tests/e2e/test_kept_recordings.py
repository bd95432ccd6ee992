"""A recording of an earlier schema opens, compares and reports as it did on its day."""

import shutil
from pathlib import Path

import pytest

from specbench.analysis.compare import compare
from specbench.model.verdict import RecordedVerdict
from specbench.recording import Recording
from specbench.report.writing import write_report
from specbench.workflows.recording_open import open_recording

KEPT = sorted((Path(__file__).parents[1] / "fixtures/recordings").iterdir())
LARGEST = 300_000


@pytest.fixture(params=KEPT, ids=lambda path: path.name)
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    copy = tmp_path / request.param.name
    shutil.copytree(request.param, copy)
    return open_recording(copy)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_kept_recording_is_small(path: Path) -> None:
    assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < LARGEST


def test_it_opens_with_every_part_read_as_its_struct(recording: Recording) -> None:
    assert recording.manifest.name == "kept"
    assert [trial.status for trial in recording.sealed] == ["ok"] * 3
    assert len(recording.journal) > 5
    [verdict] = recording.verdicts
    assert isinstance(verdict, RecordedVerdict)
    assert verdict.verdict == "holds"
    assert verdict.levels["algorithm"] == "ddtree"


def test_its_table_has_the_columns_of_today(recording: Recording) -> None:
    table = recording.trials.set_index("algorithm")

    assert table["lossless"]["ddtree"] == "holds"
    assert table["accept_len"]["ddtree"] == pytest.approx(4.38, abs=0.01)
    assert table["tpot_n"].tolist() == [4, 3]  # one reply came in one stamp
    assert str(table["budget"].dtype) == "Int64"


def test_its_arms_compare(recording: Recording) -> None:
    found = compare(recording.trials, recording.requests, recording.blocks, "ar", "ddtree")

    # Of the rates in the steady window: with four requests the rows' own tok_s (541 and 311) are
    # made by the tail.
    assert found.cells[0].this_workload.ratio == pytest.approx(1.43, rel=0.01)
    assert "few_requests" in found.cells[0].flags or found.cells[0].doubts


@pytest.mark.process
def test_it_reports(recording: Recording, tmp_path: Path) -> None:
    files = write_report([recording], tmp_path / "report")

    text = files.markdown.read_text(encoding="utf-8")
    assert "DDTREE" in text
    assert "lossless" in text
