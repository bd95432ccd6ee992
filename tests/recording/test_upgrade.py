"""Verdicts of before there were codes read as today's: the old sentences become codes."""

from typing import Any

import msgspec
import pytest

from specbench.model.verdict import TREE_SUSPECTS, RecordedVerdict
from specbench.recording.upgrade import upgraded

OLD: dict[str, Any] = {
    "name": "sampled", "verdict": "violated", "method": "score tests", "n_tokens": 9,
    "concurrency": 4, "temperature": 1.0,
}  # fmt: skip


def read(**fields: Any) -> RecordedVerdict:
    return msgspec.convert(upgraded({"verdict": "violated"} | fields), RecordedVerdict)


@pytest.mark.parametrize(
    ("note", "ground", "test"),
    [
        ("3 reproduced wrong tokens", "witness", ""),
        ("favourite: p = 1.0e-09, fresh p = 2.0e-03", "test", "favourite"),
        ("e-process: log E = 12, again on fresh requests", "e-process", ""),
        ("", "", ""),
    ],
)
def test_the_note_of_an_old_claim_tells_its_ground(note: str, ground: str, test: str) -> None:
    claim = read(claims=[OLD | {"note": note}]).claims[0]

    assert (claim.ground, claim.test, claim.note) == (ground, test, note)


def test_a_claim_of_today_keeps_its_ground_whatever_its_note_says() -> None:
    claim = read(claims=[OLD | {"note": "3 reproduced wrong tokens", "ground": "fails"}]).claims[0]

    assert claim.ground == "fails"


def test_old_suspects_are_texts_of_which_those_of_trees_are_known() -> None:
    tree, other = read(suspects=["attention mask of the tree", "coins are shared"]).suspects

    assert tree.code in TREE_SUSPECTS
    assert (other.code, other.text) == ("", "coins are shared")


def test_suspects_of_today_are_read_as_they_are() -> None:
    said = {"code": "batch", "text": "a mask that is none"}

    assert read(suspects=[said]).suspects[0].code == "batch"


def test_old_notes_are_taken_from_the_findings() -> None:
    assert read(findings="x\n\nNotes:\n- one\n- two\n\nWhat else").notes == ["one", "two"]
    assert read(findings="x\n\nNotes:\n- one\n", notes=[]).notes == []
