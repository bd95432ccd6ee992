"""What is put on a host is checked and recorded, and what was there comes back byte for byte."""

import hashlib
import json
from pathlib import Path

import pytest

from specbench.config import split_entry
from specbench.errors import InputError
from specbench.hosts.deploy import deployed, restore
from specbench.model.host import Host
from specbench.remote.local import LocalShell

pytestmark = pytest.mark.process

OLD, NEW = b"x = 1\n", b"x = 2\n"


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "site" / "worker.py"
    path.parent.mkdir()
    path.write_bytes(OLD)
    path.chmod(0o640)
    return path


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    path = tmp_path / "my patch.py"
    path.write_bytes(NEW)
    return path


def test_a_file_is_replaced_for_a_while_and_recorded(
    local: Host, original: Path, patch: Path, tmp_path: Path
) -> None:
    with deployed(LocalShell(), local, [f"{patch}:{original}"], tmp_path):
        during = original.read_bytes()
    record = json.loads((tmp_path / "files.json").read_text())[0]

    assert (during, original.read_bytes()) == (NEW, OLD)
    assert original.stat().st_mode & 0o777 == 0o640
    assert record["sha256"] == hashlib.sha256(NEW).hexdigest()
    assert record["original_sha256"] == hashlib.sha256(OLD).hexdigest()


def test_a_new_file_is_gone_afterwards(local: Host, patch: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.py"

    with deployed(LocalShell(), local, [f"{patch}:{target}"], tmp_path):
        assert target.read_bytes() == NEW

    assert not target.exists()


def test_after_a_crash_restore_brings_the_original_back_once(
    local: Host, original: Path, patch: Path, tmp_path: Path
) -> None:
    crashed = deployed(LocalShell(), local, [f"{patch}:{original}"], tmp_path)
    crashed.__enter__()

    said = restore(LocalShell())

    assert said == (f"put back the original {original}",)
    assert original.read_bytes() == OLD
    assert restore(LocalShell()) == ()


def test_a_patch_that_is_no_python_never_reaches_its_place(
    local: Host, original: Path, patch: Path, tmp_path: Path
) -> None:
    patch.write_text("def broken(:\n")

    with (
        pytest.raises(InputError, match="no valid Python"),
        deployed(LocalShell(), local, [f"{patch}:{original}"], tmp_path),
    ):
        pass

    assert original.read_bytes() == OLD


def test_a_failure_in_the_middle_takes_back_what_was_done(
    local: Host, original: Path, patch: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def broken(:\n")

    with (
        pytest.raises(InputError),
        deployed(LocalShell(), local, [f"{patch}:{original}", f"{bad}:~/x.py"], tmp_path),
    ):
        pass

    assert original.read_bytes() == OLD


@pytest.mark.parametrize("entry", ["", "a", "a:", ":/b", "a:b", "a:../b", "a:{other}/b"])
def test_an_entry_that_is_not_from_and_to_is_refused(entry: str) -> None:
    with pytest.raises(InputError, match="is not FROM:TO"):
        split_entry(entry)
