"""Grammars under speculation: is every text legal, and is the choice the target's own.

A grammar whose legal set is known by construction: letters A to F with a space before each, which
is one token in the usual vocabularies. The first letter of an answer comes from prefill, the later
ones from verification. A prompt that ends with some letters already makes the next one a first
letter: so one-token answers are plain draws at the very context of a later letter, by text alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from specbench.verify.draws.book import NOISE_NAT
from specbench.verify.refused import Refused
from specbench.verify.session import Session
from specbench.verify.spoken import Said, Words, say, say_all
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.exchange import (
    Stratum,
    favourite,
    homogeneity,
    stratum,
    tilt,
)
from specbench.verify.statistics.odds import Odds

LETTERS = "ABCDEF"
_ONE = f"[{LETTERS[0]}-{LETTERS[-1]}]"
PROMPTS = (
    "The answers to the ten questions of the quiz, in order, are:",
    "She wrote down the grades of her pupils one after the other:",
    "The seats that were still free in the last row:",
    "Vitamins in the order of the list:",
)
Dialect = Literal["regex", "structured_outputs", "guided_regex", "grammar"]
DIALECTS: tuple[Dialect, ...] = ("regex", "structured_outputs", "guided_regex", "grammar")
"""Keys that take a regular expression: SGLang, vLLM, older vLLM, llama.cpp (as GBNF)."""

Context = tuple[str, str]
"""A prompt, and the letters that stand behind it already."""

_LONG = 8
_SHORT = 4
_LEAST_DRAWS = 16
_CONTEXTS = 12
# Draws at a greedy disagreement: enough for an error to be certified where none shows the token.
_PROBES = 40
_SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["red", "green", "blue"]},
        "size": {"enum": ["small", "large"]},
    },
    "required": ["colour", "size"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Grammar:
    """How letters are asked for: the key, and whether the space is a token `apart` from its letter.

    Where it is apart, a prompt ends with the space, so that the next token is the letter.
    """

    dialect: Dialect
    apart: bool

    def words(
        self, prompt: str, before: str, count: int, *, temperature: float = 0.0, one: bool = False
    ) -> Words:
        """Ask for `count` letters after those `before`; `one`: the first alone, from prefill."""
        text = prompt + "".join(f" {letter}" for letter in before) + (" " if self.apart else "")
        limit = 1 if one else 3 * count + 2
        return Words(text, limit, temperature, "completions", 1, self._constraint(count))

    def _constraint(self, count: int) -> dict[str, Any]:
        first, rest = (_ONE, count - 1) if self.apart else ("", count)
        if self.dialect == "grammar":
            return {
                "grammar": f'root ::= {first} (" " {_ONE}){{{rest}}}'
                if rest
                else f"root ::= {_ONE}"
            }
        pattern = f"{first}( {_ONE}){{{rest}}}" if rest else first
        if self.dialect == "structured_outputs":
            return {"structured_outputs": {"regex": pattern}}
        return {self.dialect: pattern}


@dataclass(slots=True)
class Findings:
    """`illegal` texts, certified `errors` at temperature 0, `judged` letters, open contexts."""

    illegal: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    judged: int = 0
    contexts: list[Stratum] = field(default_factory=list)


def run_grammar(session: Session) -> Evidence | None:
    """Check legality and choice of letters at temperature 0 and 1, and of a JSON schema."""
    found, before = Findings(), session.client.spent.generated
    try:
        grammar = _grammar(session)
    except Refused as error:
        session.seen.not_tested.append(f"grammars: the server refused ({error})")
        return None
    if grammar is not None:
        _greedy(session, grammar, found)
        _drawn(session, grammar, found)
    _schema(session, found)
    if not found.judged and not found.illegal:
        return None
    tests = {
        "letters, temperature": tilt(found.contexts, NOISE_NAT).p,
        "letters, favourite": favourite(found.contexts, NOISE_NAT).p,
        "letters, homogeneity": homogeneity(found.contexts, NOISE_NAT).p,
    }
    wrong = (
        [f"{len(found.illegal)} illegal texts, as {found.illegal[0]!r}"] if found.illegal else []
    )
    if found.errors:
        wrong.append(f"{len(found.errors)} letters at temperature 0 are not the target's")
    return Evidence(
        name="grammars",
        stage="grammar",
        method="legality by an independent reader; letters against one-token answers",
        n_tokens=session.client.spent.generated - before,
        concurrency=session.client.concurrency,
        tests={name: p for name, p in tests.items() if p is not None},
        fails="; ".join(wrong),
        note=f"{grammar.dialect if grammar else 'JSON schema'}: {found.judged} legal choices, "
        f"{len(found.contexts)} contexts by draws",
        seen={name: f"{name}: one-token answers choose otherwise" for name in tests},
    )


def _grammar(session: Session) -> Grammar | None:
    """Find the key that acts: without it the prompt gives other text, with it legal first letters.

    Only first letters are looked at: verification may be what breaks the later ones.
    """
    free = _letters(say(session.client, Words(PROMPTS[0], 8, api="completions"))[0].text)
    why = "the server ignores them"
    if free is not None and len(free) >= _SHORT:
        why = "the server gives letters without being told"
    for grammar in (Grammar(name, apart) for name in DIALECTS for apart in (False, True)):
        try:
            firsts = [
                _letters(say(session.client, grammar.words(prompt, "", _SHORT, one=True))[0].text)
                for prompt in PROMPTS
            ]
        except Refused as error:
            why = f"the server refuses them ({error})" if "ignores" in why else why
            continue
        if all(firsts) and "without" not in why:
            return grammar
        if None not in firsts and not any(firsts):
            why = "a letter is more than one token here"
    session.seen.not_tested.append(f"grammars (regular expressions): {why}")
    return None


def _letters(text: str) -> str | None:
    """Return the letters of a legal text or of the beginning of one; None where it is neither."""
    if not re.fullmatch(rf"\s?({_ONE}( {_ONE})*)? ?", text):
        return None
    return "".join(text.split())


def _read(said: Said, count: int, found: Findings) -> str:
    """Return the legal letters of an answer; note an illegal one. A cut answer may be short."""
    letters = _letters(said.text)
    complete = letters is not None and (len(letters) == count or said.finish == "length")
    if letters is None or not complete or len(letters) > count:
        found.illegal.append(said.text)
        return ""
    found.judged += len(letters)
    return letters


def _greedy(session: Session, grammar: Grammar, found: Findings) -> None:
    """Compare every letter after the first with the plain greedy choice at its context."""
    c = session.client.concurrency
    answers = say_all(session.client, [grammar.words(p, "", _LONG) for p in PROMPTS], c)
    session.flush()
    emitted = {p: _read(a[0], _LONG, found) for p, a in zip(PROMPTS, answers, strict=True)}
    places = [(p, k) for p, letters in emitted.items() for k in range(1, len(letters))]
    asks = [grammar.words(p, emitted[p][:k], _LONG - k, one=True) for p, k in places]
    for (prompt, k), said in zip(places, say_all(session.client, asks, c), strict=True):
        letter, plain = emitted[prompt][k], _letters(said[0].text)
        if plain and plain != letter:
            context = (prompt, emitted[prompt][:k])
            drawn = _plain(session, grammar, context, _LONG - k, _PROBES)
            odds = Odds(drawn.count(letter), drawn.count(letter) + drawn.count(plain))
            if odds.decision == "error":
                found.errors.append(f"{letter} for {plain} after {emitted[prompt][:k]}")


def _drawn(session: Session, grammar: Grammar, found: Findings) -> None:
    """Compare later letters, drawn at temperature 1, with plain draws at the same contexts."""
    draws = session.budget.letters
    if not draws:
        session.seen.not_tested.append("grammars at temperature 1: from the default budget on")
        return
    c = session.client.concurrency
    after: dict[Context, list[str]] = defaultdict(list)
    for prompt in PROMPTS[:2]:
        asks = [grammar.words(prompt, "", _SHORT, temperature=1.0)] * draws
        for said in say_all(session.client, asks, c):
            letters = _read(said[0], _SHORT, found)
            for k in range(1, len(letters)):
                after[prompt, letters[:k]].append(letters[k])
    session.flush()
    chosen = sorted(after.items(), key=lambda item: -len(item[1]))[:_CONTEXTS]
    for context, verified in chosen:
        if len(verified) < _LEAST_DRAWS:
            continue
        plain = _plain(session, grammar, context, _SHORT - len(context[1]), len(verified))
        one = stratum([ord(t) for t in verified], [ord(t) for t in plain])
        if one is not None:
            found.contexts.append(one)


def _plain(
    session: Session, grammar: Grammar, context: Context, left: int, count: int
) -> list[str]:
    """Return first letters after a context, each of a request of its own."""
    asks = [grammar.words(*context, left, temperature=1.0, one=True)] * count
    answers = say_all(session.client, asks, session.client.concurrency)
    return [letters for said in answers if (letters := _letters(said[0].text))]


def _schema(session: Session, found: Findings) -> None:
    """Ask for JSON of a fixed shape; a text that begins as none was never constrained."""
    shape = {"name": "thing", "schema": _SCHEMA, "strict": True}
    extra = {"response_format": {"type": "json_schema", "json_schema": shape}}
    asks = [
        Words(f"Describe a {thing} as JSON.", 64, temperature, extra=extra)
        for thing in ("ball", "car", "coat")
        for temperature in (0.0, 1.0)
    ]
    try:
        answers = say_all(session.client, asks, session.client.concurrency)
    except Refused as error:
        session.seen.not_tested.append(f"grammars (JSON schema): the server refused ({error})")
        return
    texts = [said[0].text for said in answers if said[0].finish != "length"]
    if not texts or not all(text.lstrip().startswith("{") for text in texts):
        session.seen.not_tested.append("grammars (JSON schema): the server ignores them")
        return
    found.illegal += [text for text in texts if not _fits(text)]
    found.judged += sum(map(_fits, texts))


def _fits(text: str) -> bool:
    try:
        given = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return (
        isinstance(given, dict)
        and set(given) == {"colour", "size"}
        and given["colour"] in {"red", "green", "blue"}
        and given["size"] in {"small", "large"}
    )


def cost(draws: int) -> int:
    """Return about how many tokens the stage generates."""
    return 4 * _LONG * 3 + 6 * 64 + 2 * draws * (_SHORT + 1) + _CONTEXTS * draws // 2
