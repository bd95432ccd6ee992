"""Templates of flags and environment: text with `{expression}` in it, over the factors of a cell.

A template that is one placeholder keeps the type of its value: an integer stays one, true becomes
a bare flag, false or none leaves the flag out. `{budget + 1?}` may name factors that the matrix
does not have: they are none, and so is what is calculated from them. `{{` and `}}` are braces.
"""

import re
from typing import NamedTuple

from specbench.expressions.expression import Expression, ExpressionError, Levels, parse
from specbench.model.matrix import Level

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class Template(NamedTuple):
    """A compiled template: constant text and expressions, and the factors that it needs."""

    pieces: tuple[str | Expression, ...]
    required: frozenset[str]
    optional: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """Every factor that the template uses."""
        return self.required | self.optional

    def render(self, levels: Levels) -> Level:
        """Fill in the levels; None means that the flag is left out."""
        known = {name: levels.get(name) for name in self.names}
        values = [piece if isinstance(piece, str) else piece.value(known) for piece in self.pieces]
        if len(values) == 1:
            return _level(values[0])
        if any(value is None for value in values):
            return None
        return "".join(_text(value) for value in values)


def compile_template(text: Level) -> Template:
    """Compile a flag's value; anything but a text is a constant.

    Raises:
        ExpressionError: with the offset in `text`.
    """
    if not isinstance(text, str):
        constant = Expression("", (), lambda _: text)
        return Template((constant,), frozenset(), frozenset())
    pieces: list[str | Expression] = []
    required: set[str] = set()
    optional: set[str] = set()
    at = 0
    for match in _PIECE.finditer(text):
        pieces.append(text[at : match.start()])
        at = match.end()
        if match[0] in ("{{", "}}"):
            pieces.append(match[0][0])
        elif match[1] is None:
            raise ExpressionError(
                f"unmatched {match[0]!r}", offset=match.start(), hint="a brace is written {{ or }}"
            )
        else:
            expression, may_miss = _placeholder(match[1], match.start(1))
            pieces.append(expression)
            (optional if may_miss else required).update(name for name, _ in expression.names)
    pieces.append(text[at:])
    kept = tuple(piece for piece in pieces if piece != "") or ("",)
    return Template(kept, frozenset(required), frozenset(optional))


def _placeholder(text: str, offset: int) -> tuple[Expression, bool]:
    bare = text.rstrip()
    may_miss = bare.endswith("?")
    try:
        return parse(bare.removesuffix("?")), may_miss
    except ExpressionError as error:
        raise ExpressionError(error.what, offset=offset + error.offset, hint=error.hint) from error


def _level(value: object) -> Level:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
