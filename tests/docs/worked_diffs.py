"""The worked diffs of CONTRIBUTING.md: read, and applied to a copy of the package.

A hunk is found by its own lines without `+`, which stand once in the file: what else is added or
moved around them is nothing to it.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"```diff\n(.*?)```", re.DOTALL)
FILE = re.compile(r"^(---|\+\+\+) (specbench/\S+)\n", re.MULTILINE)


class Change(NamedTuple):
    """What is done to one file: it is written, or its hunks are replaced."""

    path: str
    new: bool
    hunks: tuple[str, ...]


def diffs(heading: str) -> list[list[Change]]:
    """Read the diffs of one section."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.split(r"\n###? ", text.split(f"\n### {heading}\n", 1)[1])[0]
    return [list(_changes(body)) for body in FENCED.findall(section)]


def _changes(diff: str) -> Iterator[Change]:
    parts = FILE.split(diff)
    assert parts[0] == ""
    for kind, path, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        yield Change(path, kind == "+++", tuple(re.split(r"^@@\n", body, flags=re.MULTILINE)))


def copy_of_the_package(folder: Path) -> Path:
    """Copy what is installed, so that a diff can be applied to it."""
    shutil.copytree(
        ROOT / "specbench", folder / "specbench", ignore=shutil.ignore_patterns("__pycache__")
    )
    return folder


def apply(changes: list[Change], tree: Path) -> None:
    """Do to a tree what a diff says."""
    for change in changes:
        path = tree / change.path
        assert path.exists() != change.new, change.path
        text = "" if change.new else path.read_text(encoding="utf-8")
        for hunk in change.hunks:
            text = _replaced(text, hunk, change)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _replaced(text: str, hunk: str, change: Change) -> str:
    lines = hunk.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines if line[0] != "-")
    if change.new:
        assert before == "", f"{change.path} is new"
        return after
    assert before, f"a hunk of {change.path} has no place"
    assert f"\n{text}".count(f"\n{before}") == 1, f"{change.path} has not once:\n{before}"
    return f"\n{text}".replace(f"\n{before}", f"\n{after}")[1:]
