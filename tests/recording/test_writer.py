import json
import os
import random
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from specbench.errors import RecordingError
from specbench.model.block_facts import BlockFacts
from specbench.model.secrets import Secrets
from specbench.recording import Recording, Writer, find_recordings
from specbench.recording.entries import BlockBegun, RunBegun, TrialSealed
from tests.recording.records import manifest, measure, sealed

TRIALS = 12


def measure_what_is_missing(root: Path) -> None:
    with Writer.resume(root) as writer:
        done = {entry.trial.trial_id for entry in Recording(root).sealed}
        for number in range(TRIALS):
            if f"t{number:03d}" not in done:
                measure(writer, number)


def kill_in_the_middle(root: Path, after_s: float) -> None:
    child = os.fork()
    if child == 0:
        try:
            measure_what_is_missing(root)
        finally:
            os._exit(0)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def sealings(root: Path) -> list[str]:
    return [entry.trial_id for entry in Recording(root).journal if isinstance(entry, TrialSealed)]


def test_the_manifest_keeps_what_each_host_said_at_its_latest_launch(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        writer.describe_host("h1", {"driver": ("570",)})
        writer.describe_host("h2", {"driver": ("571",)})
        writer.describe_host("h1", {"driver": ("575",)})
        writer.describe_host("h2", {})
        root = writer.paths.root

    kept = Recording(root).manifest

    assert kept.host_facts == {"h1": {"driver": ["575"]}, "h2": {"driver": ["571"]}}
    assert kept.name == manifest().name


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.process
def test_a_kill_at_any_instant_loses_nothing_sealed_and_corrupts_nothing(tmp_path: Path) -> None:
    dice = random.Random(7)
    kills = 0
    while kills < 200:
        with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
            root = writer.paths.root
        before: set[str] = set()
        while len(before) < TRIALS and kills < 200:
            kill_in_the_middle(root, dice.uniform(0.0, 0.02))
            kills += 1

            recording = Recording(root)
            after = {entry.trial.trial_id for entry in recording.sealed}
            assert before <= after
            assert all(len(list(recording.requests_of(name))) == 3 for name in after)
            before = after

        measure_what_is_missing(root)
        assert sorted(sealings(root)) == [f"t{number:03d}" for number in range(TRIALS)]


def test_two_runs_in_one_directory_are_refused(tmp_path: Path) -> None:
    with (
        Writer.create(tmp_path, manifest(), "0" * 8) as writer,
        pytest.raises(RecordingError, match=f"process {os.getpid()} since"),
    ):
        Writer.resume(writer.paths.root)

    with Writer.resume(writer.paths.root) as second:
        assert second.resumed


def test_a_recording_of_a_newer_schema_is_refused_politely(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        path = writer.paths.manifest
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99}))

    with pytest.raises(RecordingError, match=r"schema 99.*reads up to"):
        Recording(path.parent)
    with pytest.raises(RecordingError, match="upgrade"):
        Writer.resume(path.parent)


def test_a_failed_trial_that_is_measured_again_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        measure(writer, 1, "failed")
        measure(writer, 1)

    recording = Recording(writer.paths.root)
    assert [entry.status for entry in recording.sealed] == ["ok"]
    assert len(list(recording.paths.superseded.iterdir())) == 1


def test_a_trial_that_was_renamed_but_not_listed_is_adopted_once(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        measure(writer, 1)
    journal = writer.paths.journal
    journal.write_bytes(b"")

    for _ in range(2):
        with Writer.resume(writer.paths.root):
            pass

    assert sealings(writer.paths.root) == ["t001"]


def test_a_journal_line_cut_short_is_ignored_and_the_next_one_is_whole(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        writer.note(BlockBegun(block_id="first"))
    with writer.paths.journal.open("ab") as file:
        file.write(b'{"kind":"sec')

    with Writer.resume(writer.paths.root) as again:
        again.note(BlockBegun(block_id="third"))

    journal = Recording(again.paths.root).journal
    assert [e.block_id for e in journal if isinstance(e, BlockBegun)] == ["first", "third"]
    assert len(journal) == 3  # and before them the hash of the manifest


def test_a_damaged_line_in_the_middle_of_the_journal_is_named(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        writer.paths.journal.write_bytes(b'{"kind":"a"}\n{oops\n{"kind":"b"}\n')

    recording = Recording(writer.paths.root)
    assert [str(one).partition(" (")[0] for one in recording.damage] == [
        "journal.jsonl is damaged in line 2"
    ]
    assert len(recording.journal) == 2


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """A disk that is nearly full: the kernel takes a part of a write and refuses the rest."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_what_is_sealed_stays(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        measure(writer, 1)
        journal = writer.paths.journal

        with (
            files_no_larger_than(journal.stat().st_size + 10),
            pytest.raises(RecordingError, match="cannot write the recording"),
        ):
            writer.note(BlockBegun(block_id="anything"))
        measure(writer, 2)

    assert sealings(writer.paths.root) == ["t001", "t002"]


def test_a_results_folder_that_cannot_be_written_is_an_error_for_the_reader(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(RecordingError, match="cannot write the recording") as caught:
        Writer.create(blocked / "results", manifest(), "0" * 8)

    assert "--results" in str(caught.value)


def test_hostile_matrix_names_stay_inside_the_results_folder(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest("../../x\n$(y) 'z'"), "0" * 8) as writer:
        root = writer.paths.root

    assert root.parent == tmp_path
    assert find_recordings(tmp_path, "../../x\n$(y) 'z'") == [root]


def test_a_sealed_trial_knows_the_hash_of_its_requests(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        measure(writer, 1)

    (only,) = Recording(writer.paths.root).sealed
    assert len(only.requests_sha256) == 64
    assert only.requests_sha256 != sealed(1).requests_sha256


def test_files_of_a_recording_are_its_owners_alone_and_hold_no_secret(tmp_path: Path) -> None:
    told = manifest()
    told.hosts = {"h": {"command": ["serve", "--api-key", "not-for-others"]}}
    hidden = Secrets.of(["not-for-others"])

    with Writer.create(tmp_path, told, "0" * 8, secrets=hidden) as writer:
        writer.note(RunBegun(specbench="not-for-others"))
        writer.open_block("b")
        writer.write_block_facts("b", BlockFacts(code_hash="not-for-others"))
        root = writer.paths.root

    every = list(root.rglob("*"))
    files = [path for path in every if path.is_file() and path.name != "lock"]
    assert all(b"not-for-others" not in path.read_bytes() for path in files)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in every if path.is_dir()} == {0o700}
