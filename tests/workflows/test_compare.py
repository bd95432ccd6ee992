import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from specbench.errors import ConfoundError, InputError, RecordingError
from specbench.model.load import LoadSpec, RequestRecord
from specbench.report.inputs import gather
from specbench.report.judged import judged
from specbench.report.noise_floors import FILE, remember
from specbench.workflows import api
from specbench.workflows.compare import Compared, CompareOptions, NoiseReport, compare_arms
from specbench.workflows.prepare import RunOptions
from specbench.workflows.recording_open import open_recording
from specbench.workflows.run import run_matrix
from tests.workflows.fakes import MATRIX, FakeLab

MEASURED = MATRIX.replace("requests: 3", "requests: 12") + "replicates: {launches: 3, trials: 2}\n"


def answers(pace: float = 1.0) -> Callable[[LoadSpec], list[RequestRecord]]:
    def answered(job: LoadSpec) -> list[RequestRecord]:
        wobble = 1 + 0.001 * (job.seed % 7)
        end = int(1e9 * pace * wobble)
        return [
            RequestRecord(
                rid=f"r{n}", prompt_id=f"p{n}", written_ns=0, first_token_ns=1, last_token_ns=end,
                end_ns=end, output_tokens=9, chunk_ns=[1, end], chunk_tokens=[1, 8],
                tokens_in_first_chunk=1, spec_verify_ct=2, spec_accepted=6,
            )
            for n in range(job.stop.requests or 0)
        ]  # fmt: skip

    return answered


def measure(folder: Path, matrix: str = MEASURED, pace: float = 1.0) -> Path:
    (folder / "m.yaml").write_text(matrix)
    fake = FakeLab()
    fake.records = answers(pace)
    with closing(
        run_matrix(RunOptions(matrix=folder / "m.yaml", results=folder / "R"), fake.lab())
    ) as events:
        list(events)
    return folder / "R"


def compared(options: CompareOptions) -> Compared:
    answer = compare_arms(options)
    assert isinstance(answer, Compared)
    return answer


def test_the_newest_recording_is_compared_in_its_matched_cells(tmp_path: Path) -> None:
    results = measure(tmp_path)

    answer = compared(CompareOptions(a="ar", b="dflash", results=results))

    assert [cell.levels["concurrency"] for cell in answer.comparison.cells] == [1, 4]
    assert answer.comparison.cells[0].launches == (3, 3)
    assert answer.exit_status == 0


def test_the_same_arm_twice_reports_the_noise_and_changes_no_verdict(tmp_path: Path) -> None:
    results = measure(tmp_path)

    report = compare_arms(CompareOptions(a="ar", b="ar", results=results))

    assert isinstance(report, NoiseReport)
    assert (report.exit_status, report.stored) == (0, None)
    assert not list(results.rglob(FILE))


def test_what_is_stored_is_the_same_for_cli_python_and_report(tmp_path: Path) -> None:
    results = measure(tmp_path)
    report = compare_arms(CompareOptions(a="ar", b="ar", results=results))
    assert isinstance(report, NoiseReport)
    remember(results, "an earlier recording", report.floors)
    recording = open_recording(results)

    told = compared(CompareOptions(a="ar", b="dflash", results=results)).comparison
    python = api.compare(recording, "ar", "dflash")
    page = judged(gather(recording), "ar", "dflash")

    assert page is not None
    assert "stored from an earlier recording" in told.launch_noise
    assert told.launch_noise == python.launch_noise == page.launch_noise
    assert told.pooled == python.pooled == page.pooled
    verdicts = [cell.verdict for cell in told.cells]
    assert verdicts == [c.verdict for c in python.cells] == [c.verdict for c in page.cells]


def test_noise_is_stored_when_asked_and_travels_with_its_recording(tmp_path: Path) -> None:
    results = measure(tmp_path)
    root = open_recording(results).path

    report = compare_arms(CompareOptions(a="ar", b="ar", results=results, store=True))
    after = compared(CompareOptions(a="ar", b="dflash", results=results))

    assert isinstance(report, NoiseReport)
    assert report.floors[0].launch.df == 2
    assert (report.exit_status, report.stored) == (0, str(results / FILE))
    assert (root / FILE).read_bytes() == (results / FILE).read_bytes()
    assert "default" in after.comparison.launch_noise


def test_the_noise_of_other_launches_is_used(tmp_path: Path) -> None:
    results = measure(tmp_path)
    report = compare_arms(CompareOptions(a="ar", b="ar", results=results))
    assert isinstance(report, NoiseReport)
    remember(results, "an earlier recording", report.floors)

    answer = compared(CompareOptions(a="ar", b="dflash", results=results))

    assert "noise floor of this host" in answer.comparison.launch_noise


def test_noise_without_replicates_is_not_decided(tmp_path: Path) -> None:
    results = measure(tmp_path, MATRIX)

    report = compare_arms(CompareOptions(a="ar", b="ar", results=results))

    assert isinstance(report, NoiseReport)
    assert (report.exit_status, report.stored) == (5, None)
    assert not (results / FILE).exists()


@pytest.mark.parametrize(
    ("condition", "status"),
    [("accept_len_ratio > 3", 1), ("accept_len_ratio < 3", 0), ("speedup_such < 0.5", 0)],
)
def test_a_condition_sets_the_exit_status(tmp_path: Path, condition: str, status: int) -> None:
    results = measure(tmp_path)

    answer = compared(CompareOptions(a="ar", b="dflash", results=results, fail_if=condition))

    assert answer.exit_status == status


def test_a_regression_against_a_baseline_is_found(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = measure(tmp_path / "old", pace=1.0)
    new = measure(tmp_path / "new", pace=1.3)

    answer = compared(
        CompareOptions(
            a="dflash", b="dflash", results=new, baseline=old, metric="tok_s_user",
            fail_if="speedup < 0.9",
        )
    )  # fmt: skip

    assert answer.exit_status == 1
    assert answer.comparison.cells[0].this_workload.ratio == pytest.approx(1 / 1.3, rel=0.02)
    assert answer.comparison.a.name == "dflash (baseline)"


def test_another_workload_in_the_baseline_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = measure(tmp_path / "old", MEASURED.replace("max_tokens: 8", "max_tokens: 16"))
    new = measure(tmp_path / "new")

    with pytest.raises(ConfoundError) as refused:
        compare_arms(CompareOptions(a="dflash", b="dflash", results=new, baseline=old))

    assert refused.value.columns["workload.max_tokens"] == ("16", "8")


def test_a_document_says_what_it_is(tmp_path: Path) -> None:
    results = measure(tmp_path)

    answer = compare_arms(CompareOptions(a="ar", b="dflash", results=results))

    document = json.loads(msgspec.json.encode(answer))
    assert document["type"] == "comparison"
    assert document["comparison"]["schema"] == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fail_if": "speed < 1"}, "did you mean 'speedup'"),
        ({"metric": "tok"}, "cannot be compared"),
        ({"a": "eagle"}, "no trial of algorithm"),
    ],
)
def test_wrong_input_is_refused_in_words(
    tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    options = {"a": "ar", "b": "dflash", "results": measure(tmp_path)} | changes

    with pytest.raises(InputError, match=words):
        compare_arms(msgspec.convert(options, CompareOptions))


def test_no_recording_is_an_error_for_the_reader(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no recording"):
        compare_arms(CompareOptions(a="ar", b="dflash", results=tmp_path))
