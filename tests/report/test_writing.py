"""A report of a recording on disk: read once, written as a whole, several side by side."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.report_speed import write_recording
from specbench.errors import RecordingError
from specbench.model.load import RequestRecord
from specbench.recording import Recording
from specbench.report.history import trends
from specbench.report.inputs import gather
from specbench.workflows.recording_open import open_recording
from specbench.workflows.report import report


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results") / "one"
    write_recording(root, trials=12, requests=20)
    return root


def test_evidence_holds_every_request_of_every_trial_once(recording: Path) -> None:
    evidence = gather(open_recording(recording))

    assert len(evidence.requests) == 12 * 20
    assert evidence.requests["trial_id"].nunique() == 12


def test_histograms_are_pooled_over_requests(recording: Path) -> None:
    evidence = gather(open_recording(recording))
    speculative = evidence.trials[evidence.trials["algorithm"] != "ar"]["trial_id"]

    assert {tuple(evidence.histograms[trial]) for trial in speculative} == {(100, 200, 300, 200)}


def test_requests_without_chunks_are_evidence_like_others(tmp_path: Path) -> None:
    root = tmp_path / "short"
    write_recording(root, trials=2, requests=2)
    file = root / "trials" / "t00001" / "requests.jsonl"
    failed = RequestRecord(rid="r0", prompt_id="p0", status="failed", reason="http_4xx")
    uncounted = RequestRecord(rid="r1", prompt_id="p1", chunk_ns=[1, 2])
    file.write_bytes(b"\n".join(map(msgspec.json.encode, (failed, uncounted))) + b"\n")

    evidence = gather(Recording(root))

    mine = evidence.requests[evidence.requests["trial_id"] == "t00001"]
    assert list(mine["status"]) == ["failed", "ok"]


def test_a_damaged_request_file_is_named(recording: Path, tmp_path: Path) -> None:
    root = tmp_path / "damaged"
    write_recording(root, trials=2, requests=2)
    (root / "trials" / "t00001" / "requests.jsonl").write_bytes(b"\xff\x00 not json\n")

    with pytest.raises(RecordingError, match="cannot be read") as caught:
        gather(open_recording(root))

    assert str(caught.value.where).endswith("t00001/requests.jsonl")


def test_a_folder_that_cannot_be_written_is_said(recording: Path, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")

    with pytest.raises(RecordingError, match="cannot write the report"):
        report([recording], folder=in_the_way)


@pytest.mark.process
def test_several_recordings_make_one_report_with_a_chapter_each(
    recording: Path, tmp_path: Path
) -> None:
    kept = [recording / "manifest.json", recording / "journal.jsonl"]
    before = [path.read_bytes() for path in kept]
    second = tmp_path / "two"
    write_recording(second, trials=3, requests=8)

    files = report([recording, second], folder=tmp_path / "out")
    html = files.html.read_text(encoding="utf-8")

    assert len(files.document.chapters) == 2
    assert 'id="r0-chapter"' in html
    assert 'id="r1-chapter"' in html
    assert "too few to speak of a change" in files.markdown.read_text(encoding="utf-8")
    assert files.folder == tmp_path / "out"
    assert [path.read_bytes() for path in kept] == before


def test_only_cells_that_two_recordings_measured_have_a_history(recording: Path) -> None:
    evidence = gather(open_recording(recording))

    assert trends([evidence]) == []


@pytest.mark.process
def test_a_recording_without_a_trial_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "empty"
    write_recording(root, trials=0, requests=0)

    files = report([root])

    assert files.html == root / "report" / "findings.html"
    text = files.markdown.read_text()
    assert "Losslessness was not tested" in text
    assert "What failed" not in text  # a section that has nothing to say is absent
