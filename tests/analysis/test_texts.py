"""Empty replies, loops, broken characters, and where two texts part."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.texts import first_difference, loops, text_flags
from specbench.model.load import RequestRecord

ANSWER = (
    "The moon has no air to speak of, so that sound cannot travel there; what astronauts hear"
    " comes through their suits and radios, never from the ground around them."
)


def reply(
    text: str | None, *, size: int = 10, phase: Literal["warmup", "measured"] = "measured"
) -> RequestRecord:
    return RequestRecord(rid="r", prompt_id="p", phase=phase, status="ok", text=text,
                         text_bytes=size)  # fmt: skip


@given(st.text("abcdefgh ", min_size=15, max_size=60), st.integers(4, 12))
def test_a_unit_that_goes_on_and_on_is_a_loop(unit: str, times: int) -> None:
    assert loops(ANSWER + unit * times)


@pytest.mark.parametrize("text", ["", "no", ANSWER, ANSWER + " " + ANSWER, "ab" * 10])
def test_an_answer_is_no_loop(text: str) -> None:
    assert not loops(text)


@given(st.text(max_size=30), st.text(max_size=30))
def test_texts_are_equal_before_their_first_difference_and_differ_there(a: str, b: str) -> None:
    place = first_difference(a, b)

    if place is None:
        assert a == b
    else:
        assert a[:place] == b[:place]
        assert a[place : place + 1] != b[place : place + 1]


@pytest.mark.parametrize(
    ("record", "flag"),
    [
        (reply(None, size=0), "empty_replies"),
        (reply("and so on " * 20), "looping_text"),
        (reply("caf\ufffd"), "replacement_characters"),
    ],
)
def test_each_kind_of_reply_raises_its_flag_alone(record: RequestRecord, flag: str) -> None:
    found = text_flags([reply(ANSWER), record])

    assert [name for name, raised in found.items() if raised] == [flag]


def test_a_reply_that_was_only_thought_is_not_empty() -> None:
    thought = RequestRecord(rid="r", prompt_id="p", phase="measured", status="ok", text_bytes=0,
                            reasoning_tokens=40)  # fmt: skip

    assert not any(text_flags([thought]).values())


def test_warm_up_replies_raise_nothing() -> None:
    assert not any(text_flags([reply(None, size=0, phase="warmup")]).values())
