"""What is shown acts on no terminal and turns no text around, and JSON reads it back unchanged."""

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.model.visible import visible
from specbench.report.escaping import clean, escape

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egpj.exe\u2066\x9b31m\ud83d\u2028"


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_shown_is_a_control_a_direction_or_a_surrogate(text: str) -> None:
    left = {
        unicodedata.category(each) for each in visible(text) if each not in "\n\t\xad\u200c\u200d"
    }

    assert not left & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text())
def test_what_is_printable_is_shown_as_it_is(text: str) -> None:
    kept = "".join(each for each in text if unicodedata.category(each)[0] in "LMNPS" or each == " ")

    assert visible(kept) == kept


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_that_was_made_visible_says_the_same(text: str) -> None:
    document = msgspec.json.encode({"name": text}).decode()

    assert json.loads(visible(document)) == {"name": text}


@pytest.mark.parametrize("write", [visible, clean, escape])
def test_screen_html_and_markdown_show_hostile_names_as_escapes(write: object) -> None:
    assert callable(write)
    shown = write(HOSTILE)

    assert all(part in shown.replace("\\\\u", "\\u") for part in (r"\u001b", r"\u202e", r"\u009b"))
    assert not set(shown) & set(HOSTILE) - set("]0;owned[2Jgpj.exe31m")
