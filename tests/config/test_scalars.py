"""Laws of reading one plain scalar."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.config.scalars import Unreadable, read_scalar


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_integers_are_themselves(value: int) -> None:
    assert read_scalar(str(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_themselves(value: float) -> None:
    read = read_scalar(repr(value))

    assert read == value
    assert isinstance(read, float)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("0x1F", 31),
        ("0o17", 15),
        (".5", 0.5),
        ("~", None),
        ("", None),
        ("null", None),
        ("True", True),
        ("false", False),
        ("0.5.23", "0.5.23"),
        ("builtin:mixed", "builtin:mixed"),
        ("2024-01-01", "2024-01-01"),
        ("nope", "nope"),
        ("-", "-"),
        ("1e", "1e"),
    ],
)
def test_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    read = read_scalar(text)

    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["no", "NO", "off", "n", "yes", "On", "y"])
def test_norway_is_not_false(text: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_scalar(text)

    assert f'"{text}"' in caught.value.hint


@pytest.mark.parametrize(
    "text", ["010", "-007", "1_000", "1:30", ".inf", "-.INF", ".nan", "1e999", str(2**63), "9" * 99]
)
def test_what_two_readers_read_differently_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read_scalar(text)


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    try:
        value = read_scalar(text)
    except Unreadable:
        return
    assert not isinstance(value, float) or math.isfinite(value)
