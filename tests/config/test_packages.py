"""A package is named so that it means the same for ever: a wheel's hash, a revision's commit."""

import hashlib
from pathlib import Path

import pytest

from specbench.config import hash_files, pin_files
from specbench.config.packages import is_package, read_package
from specbench.errors import InputError
from tests.launchers.tinyserve import commit, git, repository, wheel

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("entry", "package"),
    [
        ("dist/x-1.0-py3-none-any.whl", True),
        ("git+https://example.org/x.git@main", True),
        ("dist/x.whl:/opt/x.whl", False),
        ("x.py:{site}/x.py", False),
        ("", False),
    ],
)
def test_a_wheel_without_a_place_and_a_repository_are_packages(entry: str, package: bool) -> None:
    assert is_package(entry) is package


def test_a_wheel_is_its_content(tmp_path: Path) -> None:
    path = wheel(tmp_path, "one")
    first = hash_files([str(path)])
    wheel(tmp_path, "two")

    assert first == {path.name: read_hash(first)}
    assert hash_files([str(path)]) == {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    assert hash_files([str(path)]) != first
    assert pin_files([str(path)]) == (str(path),)


def read_hash(hashes: dict[str, str]) -> str:
    return next(iter(hashes.values()))


def test_a_branch_a_tag_and_a_short_commit_are_pinned_to_the_full_commit(tmp_path: Path) -> None:
    url = f"git+file://{repository(tmp_path / 'r', 'one')}"
    head = git(tmp_path / "r", "rev-parse", "HEAD")
    git(tmp_path / "r", "tag", "-a", "v1", "-m", "a tag is an object of its own")

    pinned = pin_files(
        [f"{url}@{name}#subdirectory=python" for name in ("main", "v1", head[:9], head)]
        + [f"{url}#subdirectory=python"]
    )

    assert set(pinned) == {f"{url}@{head}#subdirectory=python"}
    assert hash_files(pinned) == {f"{url}#subdirectory=python": head}


def test_a_branch_that_moved_is_another_code_and_a_pinned_one_stays(tmp_path: Path) -> None:
    url = f"git+file://{repository(tmp_path / 'r', 'one')}@main"
    (pinned,) = pin_files([url])
    before = hash_files([url])
    moved = commit(tmp_path / "r", "two")

    assert read_hash(hash_files([url])) == moved != read_hash(before)
    assert hash_files([pinned]) == before


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("git+file:///no/such/repository@main", "git cannot resolve it"),
        ("git+https://user:secret@example.org/x.git@main", "holds a password or token"),
        ("git+https://token@example.org/x.git@main", "holds a password or token"),
        ("git+ext://sh -c id@main", r"git\+ext is not known"),
        ("git+https://", r"git\+https is not known"),
        ("git+", r"git\+\? is not known"),
        ("/no/such.whl", "No such file or directory"),
    ],
)
def test_what_cannot_be_a_package_is_refused_before_anything_starts(
    entry: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_package(entry)

    assert "secret" not in str(error.value)
    assert "token@" not in str(error.value)


def test_a_revision_that_does_not_exist_is_said_with_its_place(tmp_path: Path) -> None:
    url = f"git+file://{repository(tmp_path / 'r', 'one')}"

    with pytest.raises(InputError, match="git cannot resolve it") as error:
        pin_files([f"{url}@no-such-branch"], where="m.yaml:3:1")
    with pytest.raises(InputError, match="git cannot resolve it"):
        read_package(f"{url}@--help")

    assert error.value.where == "m.yaml:3:1"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"\xff" * 99])
def test_a_damaged_wheel_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(content)

    with pytest.raises(InputError, match="is no wheel"):
        read_package(str(path))
