"""Text nested too deeply to decode is one sentence with the name of its file, never a traceback.

Without its manifest a recording cannot be read; of another file it is said what is left out.
"""

import json
import shutil
from pathlib import Path

import pytest

from specbench.errors import RecordingError
from specbench.recording import Recording

KEPT = Path(__file__).parents[1] / "fixtures/recordings/schema-1-before-codes"
DEEP = b'{"later": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def deepened(folder: Path, file: str) -> Path:
    root = folder / "recording"
    shutil.copytree(KEPT, root)
    damaged = min(root.glob(file))
    damaged.write_bytes(DEEP + b"\n" + damaged.read_bytes())
    return damaged


def test_a_manifest_nested_too_deeply_is_named(tmp_path: Path) -> None:
    damaged = deepened(tmp_path, "manifest.json")

    with pytest.raises(RecordingError, match="nested too deeply") as error:
        Recording(damaged.parent)

    assert str(damaged) in (error.value.where or "")


@pytest.mark.parametrize(
    "file",
    ["journal.jsonl", "trials/*/trial.json", "blocks/*/facts.json", "verdicts/*.json"],
)
def test_a_file_nested_too_deeply_is_named_with_what_can_be_used(file: str, tmp_path: Path) -> None:
    damaged = deepened(tmp_path, file)

    (damage,) = Recording(tmp_path / "recording").damage

    assert damage.file == str(damaged.relative_to(tmp_path / "recording"))
    assert "nested too deeply" in damage.what
    assert "sealed trials can be used" in damage.left


def test_requests_nested_too_deeply_are_named_line_by_line(tmp_path: Path) -> None:
    damaged = deepened(tmp_path, "trials/*/requests.jsonl")
    sealed = damaged.with_name("trial.json")
    content = json.loads(sealed.read_bytes()) | {"requests_sha256": ""}  # as if never hashed
    sealed.write_text(json.dumps(content))

    with pytest.raises(RecordingError, match="nested too deeply") as error:
        list(Recording(tmp_path / "recording").requests_of(damaged.parent.name))

    assert error.value.where == f"{damaged}:1"
