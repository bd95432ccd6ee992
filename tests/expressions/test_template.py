"""Laws of flag templates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.expressions.expression import ExpressionError
from specbench.expressions.template import compile_template

LEVELS = {"budget": 7, "draft": None, "on": True, "off": False, "name": "a b"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{budget + 1}", 8),
        ("{budget}", 7),
        ("b{budget}", "b7"),
        ("{budget}{budget}", "77"),
        ("{name}", "a b"),
        ("{on}", True),
        ("{off}", False),
        ("x{on}", "xtrue"),
        ("{draft}", None),
        ("x{draft}", None),
        ("{missing?}", None),
        ("{missing + 1?}", None),
        ("{budget + 1 ?}", 8),
        ("{{budget}}", "{budget}"),
        ('{{"n": {budget}}}', '{"n": 7}'),
        ("", ""),
        (3, 3),
        (True, True),
        (None, None),
    ],
)
def test_rendering(text: str, value: object) -> None:
    assert compile_template(text).render(LEVELS) == value
    assert type(compile_template(text).render(LEVELS)) is type(value)


@pytest.mark.parametrize(
    ("text", "offset"), [("{", 0), ("a}", 1), ("{a{b}", 0), ("{}", 1), ("x {budget +}", 11)]
)
def test_errors_have_their_offset_in_the_template(text: str, offset: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(text)

    assert caught.value.offset == offset


def test_required_and_optional_factors_are_told_apart() -> None:
    template = compile_template("{budget + 1}-{draft?}")

    assert template.required == {"budget"}
    assert template.optional == {"draft"}


@given(st.text(max_size=40))
def test_any_text_is_a_template_or_an_error(text: str) -> None:
    offset = 0
    try:
        compile_template(text).render({})
    except ExpressionError as error:
        offset = error.offset

    assert 0 <= offset <= len(text)


@given(st.text(max_size=40))
def test_a_text_with_doubled_braces_is_itself(text: str) -> None:
    doubled = text.replace("{", "{{").replace("}", "}}")

    assert compile_template(doubled).render({}) == text
