"""What is not as it was written is left out and named, with what can still be used."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.errors import RecordingError
from specbench.model.block_facts import BlockFacts
from specbench.recording import Recording, Writer, find_recordings
from specbench.recording.entries import BlockBegun, BlockLost
from specbench.workflows.recording_open import clean, left_behind, open_recording
from tests.recording.blocks import facts_of
from tests.recording.records import manifest, measure, sealed, write_requests


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three sealed trials of which the journal and the last heartbeat know."""
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        for number in range(3):
            measure(writer, number)
        writer.write_block_facts(_block(writer), BlockFacts(host="local"))
        writer.note(BlockLost(block_id="b1", cause="out of memory"))
        writer.heartbeat({"running": False})
        return writer.paths.root


def _block(writer: Writer) -> str:
    writer.open_block("b0")
    return "b0"


def told(root: Path) -> list[str]:
    return [str(one) for one in Recording(root).damage]


def test_a_whole_recording_tells_of_no_damage(root: Path) -> None:
    assert told(root) == []


@pytest.mark.parametrize(
    ("do", "what"),
    [
        (lambda file: file.write_bytes(file.read_bytes().replace(b"r1", b"r7")), "was changed"),
        (lambda file: file.write_bytes(b""), "is empty"),
        (lambda file: file.unlink(), "is missing"),
        (lambda file: (file.unlink(), file.mkdir()), "cannot be read"),
    ],
)
def test_a_trial_whose_requests_are_not_as_sealed_is_left_out_and_named(
    root: Path, do: Callable[[Path], object], what: str
) -> None:
    do(root / "trials/t001/requests.jsonl")

    recording = Recording(root)

    assert [one.trial.trial_id for one in recording.sealed] == ["t000", "t002"]
    assert set(recording.requests["trial_id"]) == {"t000", "t002"}
    (damage,) = recording.damage
    assert damage.file == "trials/t001/requests.jsonl"
    assert damage.what.startswith(what)
    assert damage.left == "that trial is left out; 2 of 3 sealed trials can be used"


def test_a_figure_changed_by_hand_in_a_sealed_trial_is_not_believed(root: Path) -> None:
    file = root / "trials/t001/trial.json"
    file.write_text(file.read_text().replace('"tok_s": 10.0', '"tok_s": 99.0'))

    recording = Recording(root)

    assert list(recording.trials["tok_s"]) == [10.0, 10.0]
    assert [one.file for one in recording.damage] == ["trials/t001/trial.json"]


def test_a_sealed_trial_that_the_journal_knows_and_the_folder_lacks_is_named(root: Path) -> None:
    shutil.rmtree(root / "trials/t001")

    (line,) = told(root)

    assert line.startswith("trials/t001 is missing, and the journal says that it was sealed")


def test_a_trial_under_a_second_name_is_not_counted_twice(root: Path) -> None:
    shutil.copytree(root / "trials/t001", root / "trials/t009")

    recording = Recording(root)

    assert len(recording.trials) == 3
    assert [one.file for one in recording.damage] == ["trials/t009/trial.json"]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [*lines[:2], *lines[1:]],
        lambda lines: [*lines[:1], lines[1].replace(b"t000", b"t007"), *lines[2:]],
        lambda lines: [*lines[:1], lines[2], lines[1], *lines[3:]],
    ],
    ids=["taken", "twice", "changed", "swapped"],
)
def test_a_journal_whose_lines_are_not_as_appended_is_named(
    root: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    journal = root / "journal.jsonl"
    journal.write_bytes(b"".join(change(journal.read_bytes().splitlines(keepends=True))))

    assert any(line.startswith("journal.jsonl is damaged in line ") for line in told(root))


def test_a_journal_cut_at_the_end_of_a_line_is_named(root: Path) -> None:
    journal = root / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))

    (line,) = told(root)

    assert line.startswith("journal.jsonl lacks at least ")
    assert Recording(root).journal[-1] != BlockLost(block_id="b1")


def test_a_journal_that_cannot_be_read_is_named_and_the_trials_are_used(root: Path) -> None:
    (root / "journal.jsonl").unlink()
    (root / "journal.jsonl").mkdir()

    recording = Recording(root)

    assert len(recording.sealed) == 3
    assert recording.damage[0].file == "journal.jsonl"
    assert "cannot be read" in recording.damage[0].what


def test_a_journal_without_its_trials_is_named_and_the_trials_are_used(root: Path) -> None:
    (root / "journal.jsonl").write_bytes(b"")
    (root / "progress.json").unlink()

    recording = Recording(root)

    assert len(recording.sealed) == 3
    (damage,) = recording.damage
    assert "does not list 3 trials that are sealed" in damage.what


def test_a_manifest_changed_by_hand_is_named_and_later_facts_of_hosts_are_no_change(
    root: Path,
) -> None:
    with Writer.resume(root) as writer:
        writer.describe_host("local", {"cpus": 2})
    assert told(root) == []

    file = root / "manifest.json"
    file.write_text(file.read_text().replace('"cpus": 2', '"cpus": 3'))

    assert told(root)[0].startswith("manifest.json was changed since it was written")


def test_facts_of_a_server_that_were_changed_are_left_out_and_named(root: Path) -> None:
    (root / "blocks/b0/facts.json").write_text('{"host": "other"}')

    recording = Recording(root)

    assert recording.blocks == {}
    assert [one.file for one in recording.damage] == ["blocks/b0/facts.json"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("[]", "it is not a JSON object"),
        ('{"spec": {"flags": 3}}', "`$.spec"),
        ('{"server": "sglang"}', "`$.server`"),
        ('{"load_s": "soon"}', "`$.load_s`"),
        ('{"phase_times": [1]}', "`$.phase_times`"),
        ('{"server_info": 7}', "`$.server_info`"),
    ],
)
def test_odd_facts_of_a_server_whose_hash_nobody_kept_are_left_out_and_named(
    tmp_path: Path, content: str, what: str
) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        (writer.open_block("b0") / "facts.json").write_text(content)

    recording = Recording(writer.paths.root)

    assert recording.blocks == {}
    (damage,) = recording.damage
    assert damage.file == "blocks/b0/facts.json"
    assert "is damaged" in damage.what
    assert what in damage.what


def test_facts_of_a_server_are_read_as_the_struct_that_was_written(tmp_path: Path) -> None:
    facts = facts_of(
        host="local", load_s=2.5, spec={"flags": [["tp", 8]]}, server={"product": "x"},
        server_info={"a": [{"b": None}]}, notices=["said"], phase_times={"weights": 1.0},
    )  # fmt: skip
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        writer.open_block("b0")
        writer.write_block_facts("b0", facts)

    assert Recording(writer.paths.root).blocks == {"b0": facts}


def test_facts_of_a_server_that_a_later_specbench_knows_do_not_hide_the_rest(
    tmp_path: Path,
) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        (writer.open_block("b0") / "facts.json").write_text('{"host": "local", "later": 1}')

    assert Recording(writer.paths.root).blocks == {"b0": BlockFacts(host="local")}


def test_a_launch_begun_anew_leaves_no_file_amiss(root: Path) -> None:
    with Writer.resume(root) as writer:
        writer.note(BlockBegun(block_id="b0"))
        writer.open_block("b0")

    assert told(root) == []


def test_a_trial_sealed_again_just_before_a_kill_is_no_damage(root: Path) -> None:
    journal = (root / "journal.jsonl").read_bytes()
    with Writer.resume(root) as writer:
        write_requests(writer.draft("t001"), 2)
        writer.seal(sealed(1))
    (root / "journal.jsonl").write_bytes(journal)

    (line,) = told(root)
    assert line.startswith("journal.jsonl does not list 1 trials that are sealed (t001)")
    with Writer.resume(root):
        pass
    assert told(root) == []


def test_a_resumed_run_makes_no_damaged_trial_good(root: Path) -> None:
    file = root / "trials/t001/trial.json"
    file.write_text(file.read_text().replace('"tok_s": 10.0', '"tok_s": 99.0'))

    with Writer.resume(root):
        pass

    assert [one.trial_id for one in Recording(root).damage] == ["t001"]


def test_a_missing_manifest_beside_sealed_trials_is_never_begun_anew(root: Path) -> None:
    (root / "manifest.json").unlink()

    for look in (
        lambda: find_recordings(root.parent, manifest().name),
        lambda: open_recording(root.parent),
        lambda: open_recording(root),
    ):
        with pytest.raises(RecordingError, match="missing beside 3 sealed trials") as error:
            look()
        assert error.value.where == str(root)


def test_a_manifest_that_tells_another_name_is_never_begun_anew(root: Path) -> None:
    file = root / "manifest.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"name": "quack"}))

    with pytest.raises(RecordingError, match="says 'quack', and its folder 'quick'"):
        find_recordings(root.parent, "quick")


def test_a_damaged_neighbour_stops_no_run_of_another_matrix(root: Path) -> None:
    (root / "manifest.json").write_bytes(b"\0")

    assert find_recordings(root.parent, "other") == []


def test_what_a_killed_run_left_without_a_manifest_is_mentioned_and_cleaned(root: Path) -> None:
    left = root.parent / "20270101T000000000000Z-quick-00000000"
    (left / "trials").mkdir(parents=True)

    assert open_recording(root.parent).path == root
    (line,) = left_behind(root.parent)
    assert str(left) in line
    assert clean(root.parent) == [left]
    assert list(root.parent.iterdir()) == [root]
