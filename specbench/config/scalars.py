"""One plain YAML scalar to its value, after YAML 1.2's core schema, traps refused."""

import math
import re

from specbench.model.matrix import Level

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASED = re.compile(r"0x[0-9A-Fa-f]+|0o[0-7]+")
_WORDS: dict[str, Level] = {"": None, "~": None}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"), None)
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True)
_WORDS |= dict.fromkeys(("false", "False", "FALSE"), False)
_NORWAY = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_UNDERSCORES = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*")
_BASE_60 = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class Unreadable(ValueError):
    """The scalar means different things to different readers, or nothing; `hint` is the way out."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def read_scalar(text: str) -> Level:
    """Resolve an unquoted scalar.

    Raises:
        Unreadable: for `no`, `on`, `010`, `1_000`, `1:30` (which YAML 1.1 and 1.2 read
            differently), and for numbers that are not finite or have more than 64 bits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text.lower() in _NORWAY:
        meant = _NORWAY[text.lower()]
        raise Unreadable(
            f"{text} is {meant} to YAML 1.1 and a text to YAML 1.2",
            f'write {meant}, or quote the text: "{text}"',
        )
    if _INTEGER.fullmatch(text):
        return _in_64_bits(text, 10)
    if _BASED.fullmatch(text):
        return _in_64_bits(text[2:], 16 if text[1] == "x" else 8)
    if _LEADING_ZERO.fullmatch(text):
        raise Unreadable(
            f"{text} is octal to YAML 1.1 and decimal to YAML 1.2",
            f'write {text.lstrip("0+-") or "0"}, or quote the text: "{text}"',
        )
    if _UNDERSCORES.fullmatch(text) or _BASE_60.fullmatch(text):
        raise Unreadable(
            f"{text} is a number to YAML 1.1 and a text to YAML 1.2",
            f'write the digits alone, or quote the text: "{text}"',
        )
    if _FLOAT.fullmatch(text):
        return _finite(text)
    if _NOT_FINITE.fullmatch(text):
        raise Unreadable(f"{text} is not a finite number", "leave the entry out, or write null")
    return text


def _in_64_bits(digits: str, base: int) -> int:
    value = int(digits, base) if len(digits) <= 64 else 2**64
    if abs(value) >= 2**63:
        raise Unreadable("the number has more than 64 bits", "write a smaller one")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unreadable(f"{text[:40]} is too large for a number", "write a smaller one")
    return value
