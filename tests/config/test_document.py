"""Laws of reading YAML with places."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.config.document import (
    DEEPEST,
    LARGEST_FILE,
    Entries,
    Problems,
    parse_document,
    read_text,
)
from specbench.config.records import plain
from specbench.errors import InputError

BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


def read(text: str) -> object:
    problems = Problems()
    tree = parse_document(text, "f.yaml", problems)
    problems.raise_any()
    assert tree is not None
    return plain(tree)


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(text)
    return str(caught.value)


def test_anchors_and_merge_keys() -> None:
    text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], d: 5, a: 6}\n"

    assert read(text)["z"] == {"a": 6, "b": 2, "c": 4, "d": 5}  # type: ignore[index]


def test_every_value_knows_its_place() -> None:
    problems = Problems()

    tree = parse_document("a: 1\nb:\n  c: [x, 'y']\n", "f.yaml", problems)

    assert isinstance(tree, Entries)
    place, inner = tree.entries["b"]
    assert str(place) == "f.yaml:2:1"
    assert isinstance(inner, Entries)
    items = inner.entries["c"][1]
    assert [str(item.place) for item in items.items] == ["f.yaml:3:7", "f.yaml:3:10"]  # type: ignore[union-attr]
    assert str(items.items[1].at(0)) == "f.yaml:3:11"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("", "f.yaml:1:1", "empty"),
        ("# only a comment\n", "f.yaml:1:1", "empty"),
        ("- a\n", "f.yaml:1:1", "mapping"),
        ("a: 1\na: 2\n", "f.yaml:2:1", "twice"),
        ("a: {b: 1, b: 2}\n", "f.yaml:1:11", "twice"),
        ("a:\n\tb: 1\n", "f.yaml:2:1", "tab"),
        ("a: [1\n", "f.yaml:2:1", "expected ',' or ']'"),
        ("a: *b\n", "f.yaml:1:4", "alias"),
        ("a: &b [*b]\n", "f.yaml:1:", "itself"),
        ("--- \na: 1\n---\nb: 2\n", "f.yaml:3:1", "second"),
        ("a: !!python/object/apply:os.system [ls]\n", "f.yaml:1:4", "tag"),
        ("a: !env X\n", "f.yaml:1:4", "tag"),
        ("[a, b]: 1\n", "f.yaml:1:1", "name"),
        ("a: x\0y\n", "f.yaml:1:5", "U+0000"),
        ("a: no\n", "f.yaml:1:4", "YAML 1.1"),
        ("a: {<<: 3}\n", "f.yaml:1:9", "mappings only"),
        ("a: " + "[" * 5000, "f.yaml:1:", "deep"),
        (BOMB, "f.yaml:", "values"),
        ("a: [" + "1," * 200_000, "f.yaml:1:", "values"),
    ],
)
def test_what_is_refused_and_where(text: str, place: str, what: str) -> None:
    message = refused(text)

    assert place in message
    assert what in message


def test_nesting_within_the_bound_is_read() -> None:
    depth = DEEPEST - 2

    assert read("a: " + "[" * depth + "]" * depth)


def test_an_unquoted_no_is_the_only_error_of_its_value() -> None:
    problems = Problems()

    parse_document("a: [no, no]\n", "f.yaml", problems)

    assert len(problems.found) == 2


def test_files_that_cannot_be_text(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_bytes("a: 1\nb: ö".encode() + b"\xff\n")
    large = tmp_path / "large.yaml"
    large.write_bytes(b"a" * (LARGEST_FILE + 1))
    marked = tmp_path / "marked.yaml"
    marked.write_bytes(b"\xef\xbb\xbfa: 1\n")

    with pytest.raises(InputError, match="0xff is not UTF-8") as caught:
        read_text(bad)
    assert str(caught.value.where) == f"{bad}:2:5"
    with pytest.raises(InputError, match="larger"):
        read_text(large)
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read_text(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_text("a\0b")
    assert read_text(marked) == "a: 1\n"


@given(st.text(max_size=80))
def test_any_text_is_a_tree_or_an_error_for_the_reader(text: str) -> None:
    with contextlib.suppress(InputError):
        read(text)


@given(st.text(alphabet="ab01:-[]{},&*!|>'\"#\n \t<~%@`?", max_size=60))
def test_near_yaml_never_ends_in_a_traceback(text: str) -> None:
    outcome: object = None
    try:
        outcome = read(text)
    except InputError as error:
        outcome = str(error)

    assert isinstance(outcome, dict) or "f.yaml:" in str(outcome)
