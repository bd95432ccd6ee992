"""Commands that read a damaged recording: what is left out is said, and nothing is begun anew."""

import shutil
from pathlib import Path

import pytest

from benchmarks.damaged import recording_of_today
from specbench.errors import InputError, RecordingError
from specbench.recording import Recording
from specbench.report.findings import compose
from specbench.report.inputs import gather
from specbench.workflows.compare import CompareOptions, compare_arms
from specbench.workflows.prepare import Prepared, RunOptions, prepare
from specbench.workflows.recording_open import open_recording
from specbench.workflows.status import read_status

AR, TREE = "009885b409df948c", "0a6cfe21a800e214"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return recording_of_today(tmp_path / "R")


def planned(root: Path, *, fresh: bool = False) -> Prepared:
    matrix = root.parent.parent / "kept.yaml"
    matrix.write_text(open_recording(root).manifest.matrix)
    return prepare(RunOptions(matrix=matrix, results=root.parent, fresh=fresh))


def test_a_lost_trial_is_measured_again_under_another_id_and_the_plan_says_why(root: Path) -> None:
    (root / f"trials/{TREE}/requests.jsonl").write_bytes(b"")

    plan = planned(root).plan

    (trial,) = plan.trials
    assert trial.trial_id != TREE
    (reason,) = [one for one in plan.reasons if one.will_run]
    assert reason.reason == f"measured before, and lost: trials/{TREE}/requests.jsonl is empty"
    assert any(TREE in notice for notice in plan.notices)
    assert [one.state for one in plan.reasons].count("done") == 2


def test_a_trial_whose_folder_is_gone_is_no_new_trial(root: Path) -> None:
    shutil.rmtree(root / "trials" / TREE)

    (reason,) = [one for one in planned(root).plan.reasons if one.will_run]

    assert reason.state == "failed"
    assert "the journal says that it was sealed" in reason.reason


def test_a_run_is_not_begun_anew_beside_a_recording_without_its_manifest(root: Path) -> None:
    prepared = planned(root)
    manifest = (root / "manifest.json").read_bytes()
    (root / "manifest.json").unlink()

    with pytest.raises(RecordingError, match="missing beside 3 sealed trials"):
        prepare(RunOptions(matrix=Path(prepared.matrix.path), results=root.parent))

    (root / "manifest.json").write_bytes(manifest)
    assert planned(root).plan.trials == ()


def test_a_comparison_that_lacks_an_arm_names_the_file_that_it_was_in(root: Path) -> None:
    (root / f"trials/{TREE}/trial.json").write_bytes(b"{")

    with pytest.raises(InputError) as error:
        compare_arms(CompareOptions(a="ar", b="ddtree", results=root.parent))

    assert f"trials/{TREE}/trial.json" in (error.value.hint or "")


def test_a_comparison_names_what_it_left_out(root: Path) -> None:
    (root / "blocks/7959412e6e461bf7/facts.json").write_bytes(b"{}")

    answer = compare_arms(CompareOptions(a="ar", b="ddtree", results=root.parent))

    (damage,) = answer.damage
    assert damage.startswith(f"{root.name}/blocks/7959412e6e461bf7/facts.json was changed")


def test_status_names_damage_and_what_killed_runs_left(root: Path) -> None:
    left = root.parent / "20200101T000000000000Z-kept-00000000"
    left.mkdir()
    (root / f"trials/{AR}/requests.jsonl").unlink()

    status = read_status(root.parent)

    assert (status.sealed, status.ok) == (2, 2)
    (damage,) = status.damage
    assert damage.startswith(f"trials/{AR}/requests.jsonl is missing: that trial is left out;")
    assert damage.endswith("2 of 3 sealed trials can be used")
    assert str(left) in status.left_behind[0]


@pytest.mark.parametrize("name", ["gpu.csv", "launch.json"])
def test_a_report_leaves_out_what_a_launch_left_and_was_changed(root: Path, name: str) -> None:
    file = root / "blocks/7959412e6e461bf7" / name
    file.write_bytes(b"\xff")

    evidence = gather(open_recording(root))

    kept = set(evidence.gpu) if name == "gpu.csv" else set(evidence.launches)
    assert kept == {"55476d1cf19e38ac"}
    assert f"Damaged: blocks/7959412e6e461bf7/{name} was changed" in compose(evidence).text()


def test_reading_changes_nothing(root: Path) -> None:
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}

    read_status(root.parent)
    planned(root)
    Recording(root)

    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == before
