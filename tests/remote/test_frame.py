"""An answer is what stands between its marks, whatever is printed around it."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.remote.frame import Frame, Opening


@given(st.binary(), st.binary(), st.binary())
def test_the_answer_is_what_stands_between_the_marks(
    before: bytes, answer: bytes, after: bytes
) -> None:
    frame = Frame()
    begin, end = frame.begin.encode(), frame.end.encode()

    assert frame.inside(before + begin + answer + end + after) == answer
    assert frame.inside(before + begin + answer) == answer
    assert frame.inside(before) == before


@given(st.binary(), st.binary(min_size=1), st.integers(1, 40))
def test_a_followed_output_begins_behind_its_mark_however_it_arrives(
    before: bytes, answer: bytes, size: int
) -> None:
    frame = Frame()
    opening = Opening(frame)
    whole = before + frame.begin.encode() + answer
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]

    let = [opening.let_through(piece) for piece in pieces]

    assert b"".join(piece or b"" for piece in let) == answer
    assert b"" not in let
    assert opening.let_through(b"") == b""


def test_an_output_that_ends_without_its_mark_is_shown_before_it_ends() -> None:
    opening = Opening(Frame())

    assert opening.let_through(b"no such shell") is None
    assert opening.let_through(b"") == b"no such shell"
    assert opening.let_through(b"") == b""


@pytest.mark.process
def test_a_framed_line_keeps_its_outputs_and_its_status() -> None:
    frame = Frame()

    done = subprocess.run(
        frame.around("printf a; printf b >&2; exit 7"), capture_output=True, check=False
    )

    assert done.returncode == 7
    assert (frame.inside(done.stdout), frame.inside(done.stderr)) == (b"a", b"b")
