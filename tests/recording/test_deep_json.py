"""Text nested too deeply to decode is one sentence with the name of its file, never a traceback."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.errors import RecordingError
from specbench.recording import Recording

KEPT = Path(__file__).parents[1] / "fixtures/recordings/schema-1-before-codes"
DEEP = b'{"later": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def _requests(recording: Recording) -> object:
    return [list(recording.requests_of(each.trial.trial_id)) for each in recording.sealed]


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ("manifest.json", lambda recording: recording),
        ("journal.jsonl", lambda recording: recording.journal),
        ("trials/*/trial.json", lambda recording: recording.sealed),
        ("trials/*/requests.jsonl", _requests),
        ("blocks/*/facts.json", lambda recording: recording.blocks),
        ("verdicts/*.json", lambda recording: recording.verdicts),
    ],
)
def test_a_file_nested_too_deeply_is_named(
    file: str, read: Callable[[Recording], object], tmp_path: Path
) -> None:
    root = tmp_path / "recording"
    shutil.copytree(KEPT, root)
    damaged = min(root.glob(file))
    damaged.write_bytes(DEEP + b"\n" + damaged.read_bytes())

    with pytest.raises(RecordingError, match="nested too deeply") as error:
        read(Recording(root))

    assert str(damaged) in (error.value.where or "")
