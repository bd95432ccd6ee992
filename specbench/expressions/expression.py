"""The small, safe language of include, exclude, when, --only and flag templates.

    either     := both ("or" both)*
    both       := negation ("and" negation)*
    negation   := "not" negation | comparison
    comparison := sum [("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in") sum]
    sum        := product (("+" | "-") product)*
    product    := unary (("*" | "//" | "%") unary)*
    unary      := "-" unary | atom
    atom       := NUMBER | STRING | "true" | "false" | "none" | NAME
                | "(" either ")" | "[" [sum ("," sum)*] "]"

A name is a factor. Nothing is evaluated by Python: the text becomes closures over a mapping of
levels. A comparison of values that have no order (`none < 3`) is false, never an error, so that a
collapsed factor does not stop a plan; arithmetic with none is none.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from specbench.errors import InputError, nearest

Levels = Mapping[str, Any]
Closure = Callable[[Levels], Any]

LONGEST = 4096
DEEPEST = 40
MOST_OPERATIONS = 100
LARGEST = 2**63 - 1

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<op>==|!=|<=|>=|//|[<>()\[\],+\-*%])
    )""",
    re.VERBOSE,
)
_CONSTANTS = {"true": True, "false": False, "none": None, "null": None}
_CONSTANTS |= {"True": True, "False": False, "None": None}
_KEYWORDS = frozenset({"and", "or", "not", "in"})
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class ExpressionError(InputError):
    """The expression is wrong at `offset` (characters from its start)."""

    def __init__(self, what: str, *, offset: int, hint: str | None = None) -> None:
        super().__init__(what, where=f"character {offset + 1} of the expression", hint=hint)
        self.offset = offset


class Token(NamedTuple):
    """One token: kind is number, name, string, op or end."""

    kind: str
    text: str
    offset: int


class Expression(NamedTuple):
    """A compiled expression: its text, the factors that it names (with offsets), its value."""

    text: str
    names: tuple[tuple[str, int], ...]
    value: Closure

    def holds(self, levels: Levels) -> bool:
        """Whether the expression is true of these levels."""
        return bool(self.value(levels))

    def check_names(self, known: Iterable[str]) -> None:
        """Refuse the first name that is not a factor.

        Raises:
            ExpressionError: with the nearest factor.
        """
        factors = set(known)
        for name, offset in self.names:
            if name not in factors:
                hint = nearest(name, factors, noun="factors")
                hint += f" (a text is quoted: '{name}')"
                raise ExpressionError(f"unknown factor {name!r}", offset=offset, hint=hint)


def parse(text: str) -> Expression:
    """Compile `text` once; evaluation afterwards is a few dictionary look-ups.

    Raises:
        ExpressionError: where the text leaves the grammar; no traceback for any text.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST} characters", offset=LONGEST)
    parser = _Parser(tokens(text))
    value = parser.either()
    parser.expect_end()
    return Expression(text, tuple(parser.names), value)


def tokens(text: str) -> list[Token]:
    """Split `text` into tokens, the last of kind end.

    Raises:
        ExpressionError: at the first character that starts no token.
    """
    found: list[Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise _no_token(text, position)
        kind = match.lastgroup
        found.append(Token(kind, match[kind], match.start(kind)))
        position = match.end()
    found.append(Token("end", "", end))
    return found


def _no_token(text: str, position: int) -> ExpressionError:
    start = position + len(text[position:]) - len(text[position:].lstrip())
    char = text[start]
    match char:
        case "=":
            hint = "equality is written =="
        case "&" | "|" | "!":
            hint = "write and, or, not"
        case "'" | '"':
            return ExpressionError("the text is not closed", offset=start, hint=f"add a {char}")
        case _:
            hint = "operators: == != < <= > >= in, not in, and, or, not, + - * // %"
    return ExpressionError(f"{char!r} is not understood", offset=start, hint=hint)


class _Parser:
    """Recursive descent over the tokens; `names` collects the factors on the way."""

    def __init__(self, found: list[Token]) -> None:
        self.found = found
        self.at = 0
        self.depth = 0
        self.operations = 0
        self.names: list[tuple[str, int]] = []

    @property
    def token(self) -> Token:
        return self.found[self.at]

    def take(self, *texts: str) -> str | None:
        """Step over the next token when it is one of these operators or keywords."""
        token = self.token
        if token.kind in ("op", "name") and token.text in texts:
            self.at += 1
            return token.text
        return None

    def expect_end(self) -> None:
        if self.token.kind != "end":
            raise self.error(f"unexpected {self.token.text!r}", "join conditions by and, or")

    def error(self, what: str, hint: str | None = None) -> ExpressionError:
        return ExpressionError(what, offset=self.token.offset, hint=hint)

    def nested(self, rule: Callable[[], Closure]) -> Closure:
        """Apply a rule one level deeper, within the bound."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error("the expression is nested too deeply", f"at most {DEEPEST} levels")
        value = rule()
        self.depth -= 1
        return value

    def arithmetic(self, op: str, left: Closure, right: Closure) -> Closure:
        """Join two sides; every one nests a call at evaluation, so there is a bound."""
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise self.error(f"more than {MOST_OPERATIONS} operations")
        return _arithmetic(op, left, right)

    def either(self) -> Closure:
        terms = [self.both()]
        while self.take("or"):
            terms.append(self.both())
        return _or(terms)

    def both(self) -> Closure:
        terms = [self.negation()]
        while self.take("and"):
            terms.append(self.negation())
        return _and(terms)

    def negation(self) -> Closure:
        if self.take("not"):
            inner = self.nested(self.negation)
            return lambda levels: not inner(levels)
        return self.comparison()

    def comparison(self) -> Closure:
        left = self.sum()
        op = self.take("==", "!=", "<", "<=", ">", ">=", "in", "not")
        if op is None:
            return left
        if op == "not" and not self.take("in"):
            raise self.error("expected 'in' after 'not'")
        value = _compare(op, left, self.sum())
        if self.token.text in ("==", "!=", "<", "<=", ">", ">=", "in") and self.token.kind != "end":
            raise self.error("comparisons do not chain", "write a < b and b < c")
        return value

    def sum(self) -> Closure:
        value = self.product()
        while op := self.take("+", "-"):
            value = self.arithmetic(op, value, self.product())
        return value

    def product(self) -> Closure:
        value = self.unary()
        while op := self.take("*", "//", "%"):
            value = self.arithmetic(op, value, self.unary())
        return value

    def unary(self) -> Closure:
        if self.take("-"):
            return self.arithmetic("-", lambda _: 0, self.nested(self.unary))
        return self.atom()

    def atom(self) -> Closure:
        token = self.token
        if self.take("("):
            value = self.nested(self.either)
            if not self.take(")"):
                raise self.error("expected ')'")
            return value
        if self.take("["):
            return self.items()
        if token.kind == "end":
            raise self.error("the expression ends too early")
        if token.kind == "op" or token.text in _KEYWORDS:
            raise self.error(f"expected a factor or a value, not {token.text!r}")
        self.at += 1
        return self.leaf(token)

    def items(self) -> Closure:
        values: list[Closure] = []
        while not self.take("]"):
            if values and not self.take(","):
                raise self.error("expected ',' or ']'")
            values.append(self.nested(self.sum))
        members = tuple(values)
        return lambda levels: [member(levels) for member in members]

    def leaf(self, token: Token) -> Closure:
        match token.kind:
            case "number":
                constant: Any = _number(token)
            case "string":
                constant = re.sub(
                    r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token.text[1:-1], flags=re.DOTALL
                )
            case _ if token.text in _CONSTANTS:
                constant = _CONSTANTS[token.text]
            case _:
                self.names.append((token.text, token.offset))
                return operator.itemgetter(token.text)
        return lambda _: constant


def _number(token: Token) -> int | float:
    if token.text.isdigit():
        if len(token.text) > 19 or int(token.text) > LARGEST:
            raise ExpressionError("the number is too large", offset=token.offset)
        return int(token.text)
    value = float(token.text)
    if value in (float("inf"), float("-inf")):
        raise ExpressionError("the number is too large", offset=token.offset)
    return value


def _or(terms: list[Closure]) -> Closure:
    """Join terms; two, the usual number, without a loop."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) == 2:
        first, second = terms
        return lambda levels: bool(first(levels) or second(levels))
    return lambda levels: any(term(levels) for term in terms)


def _and(terms: list[Closure]) -> Closure:
    """Join terms; two, the usual number, without a loop."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) == 2:
        first, second = terms
        return lambda levels: bool(first(levels) and second(levels))
    return lambda levels: all(term(levels) for term in terms)


def _same(left: Any, right: Any) -> bool:
    """Equality that does not take true for 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _contains(members: Any, item: Any) -> bool:
    if isinstance(members, str):
        return isinstance(item, str) and item in members
    return isinstance(members, list) and any(_same(member, item) for member in members)


def _compare(op: str, left: Closure, right: Closure) -> Closure:
    match op:
        case "==":
            return lambda levels: _same(left(levels), right(levels))
        case "!=":
            return lambda levels: not _same(left(levels), right(levels))
        case "in":
            return lambda levels: _contains(right(levels), left(levels))
        case "not":
            return lambda levels: not _contains(right(levels), left(levels))
        case _:
            order = _ORDERS[op]
            return lambda levels: _ordered(order, left(levels), right(levels))


def _ordered(order: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    texts = isinstance(left, str) and isinstance(right, str)
    return (numbers or texts) and order(left, right)


def _arithmetic(op: str, left: Closure, right: Closure) -> Closure:
    def value(levels: Levels) -> int | float | None:
        first, second = left(levels), right(levels)
        if not isinstance(first, int | float) or not isinstance(second, int | float):
            return None
        return _calculate(op, first, second)

    return value


def _calculate(op: str, first: float, second: float) -> float | None:
    match op:
        case "+":
            result = first + second
        case "-":
            result = first - second
        case "*":
            result = first * second
        case _ if second == 0:
            return None
        case "//":
            result = first // second
        case _:
            result = first % second
    return result if abs(result) <= LARGEST else None
