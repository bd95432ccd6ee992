"""What a chat asks of the text: stop strings, streams, several answers, echo, reasoning, tools.

Each is compared with the plain greedy answer to the same words. Where two greedy answers part, a
near tie cannot be told from an error by texts alone, so only what no tie explains is a fault: a
stop string that is left in or cut short, characters that a stream loses, tags that leak.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from specbench.verify.refused import Refused
from specbench.verify.session import Session
from specbench.verify.spoken import Said, Words, say, say_streamed
from specbench.verify.statistics.evidence import Evidence

TEXTS = (
    "Count from one to thirty in words, separated by commas.",
    "Write four sentences about the sea.",
    "List the months of the year with the number of their days.",
    "Explain in a short paragraph how bread is baked.",
)
_LENGTH = 64
# Long enough to span two tokens of any vocabulary that keeps most words whole.
_STOP_LENGTH = 12
# A streamed text that lacks more than this share is another text, not one that lost characters.
_KEPT = 0.8
_TAGS = re.compile(r"</?(?:think|thinking|reasoning)>|<\|?/?tool_?call\|?>", re.IGNORECASE)
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "set_lamp",
        "description": "Switch a lamp on or off.",
        "parameters": {
            "type": "object",
            "properties": {"state": {"enum": ["on", "off"]}, "room": {"type": "string"}},
            "required": ["state", "room"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, slots=True)
class Checked:
    """How many answers of one shape could be judged, and what is wrong with them."""

    judged: int
    wrong: tuple[str, ...] = ()


def run_shapes(session: Session) -> Evidence | None:
    """Check every shape that the server accepts; what it refuses is said to be untested."""
    before = session.client.spent.generated
    try:
        base = {text: _base(session, text) for text in TEXTS}
    except Refused as error:
        session.seen.not_tested.append(f"chat shapes: the server refused ({error})")
        return None
    checks: dict[str, Callable[[], Checked]] = {
        "stop strings": lambda: _stops(session, base),
        "streamed text": lambda: _streams(session, base),
        "n = 2": lambda: _several(session),
        "echo": lambda: _echo(session),
        "reasoning apart from content": lambda: _reasoning(session, base),
        "tool calls": lambda: _tools(session),
    }
    found: dict[str, Checked] = {}
    for name, check in checks.items():
        try:
            found[name] = check()
        except Refused as error:
            session.seen.not_tested.append(f"{name}: the server refused ({error})")
            continue
        if not found[name].judged:
            session.seen.not_tested.append(f"{name}: no answer could be judged")
    wrong = [f"{name}: {what}" for name, one in found.items() for what in one.wrong[:2]]
    judged = {name: one.judged for name, one in found.items() if one.judged}
    if not judged:
        return None
    return Evidence(
        name="chat shapes",
        stage="shapes",
        method="texts against the plain greedy answer",
        n_tokens=session.client.spent.generated - before,
        concurrency=1,
        fails="; ".join(wrong),
        note=", ".join(f"{name} ({n} judged)" for name, n in judged.items()),
    )


def _base(session: Session, text: str) -> Said:
    return say(session.client, Words(text, _LENGTH))[0]


def _stops(session: Session, base: dict[str, Said]) -> Checked:
    judged, wrong = 0, []
    for text, plain in base.items():
        place = _stop_place(plain.text)
        if place is None:
            continue
        stop = plain.text[place : place + _STOP_LENGTH]
        said = say(session.client, Words(text, _LENGTH, extra={"stop": [stop]}))[0]
        due, got = plain.text[:place].rstrip(), said.text.rstrip()
        if got == due:
            judged += 1
        elif stop in said.text or (got.startswith(due) and plain.text.startswith(got)):
            judged += 1
            wrong.append(f"{got[len(due) :]!r} is given of the stop string {stop!r} or after it")
        elif due.startswith(got) and said.finish == "stop":
            judged += 1
            wrong.append(f"the answer ends {len(due) - len(got)} characters before {stop!r}")
    return Checked(judged, tuple(wrong))


def _stop_place(text: str) -> int | None:
    """Return where a string begins that comes for the first time past the first third."""
    for place in range(len(text) // 3, len(text) - _STOP_LENGTH):
        stop = text[place : place + _STOP_LENGTH]
        if stop == stop.strip() and text.find(stop) == place:
            return place
    return None


def _streams(session: Session, base: dict[str, Said]) -> Checked:
    judged, wrong = 0, []
    for text, plain in base.items():
        said = say_streamed(session.client, Words(text, _LENGTH))
        whole, parts = plain.reasoning + plain.text, said.reasoning + said.text
        if parts == whole:
            judged += 1
        elif _lost(parts, whole) or _lost(whole, parts):
            judged += 1
            wrong.append(f"{len(parts)} characters where the whole answer has {len(whole)}")
    return Checked(judged, tuple(wrong))


def _lost(part: str, whole: str) -> bool:
    """Whether `part` is `whole` without some characters; answers that part have other ones."""
    if not _KEPT * len(whole) <= len(part) < len(whole):
        return False
    rest = iter(whole)
    return all(character in rest for character in part)


def _several(session: Session) -> Checked:
    answers = say(session.client, Words(TEXTS[0], 16, temperature=1.0, n=2))
    wrong = () if len(answers) == 2 else (f"{len(answers)} answers for 2",)
    return Checked(1, wrong)


def _echo(session: Session) -> Checked:
    words = Words("The sea is", 8, api="completions", extra={"echo": True})
    (said,) = say(session.client, words)
    if words.text not in said.text:
        raise Refused(200, "echo is ignored")
    wrong = () if said.text.startswith(words.text) else (f"{said.text[:20]!r} comes first",)
    return Checked(1, wrong)


def _reasoning(session: Session, base: dict[str, Said]) -> Checked:
    """Look for tags in content where the server separates reasoning, also with thinking off."""
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    short = say(session.client, Words(TEXTS[1], _LENGTH, extra=off))[0]
    if not any(plain.reasoning for plain in base.values()):
        return Checked(0)
    wrong = [
        f"{match.group()} stands in the content"
        for said in (*base.values(), short)
        if (match := _TAGS.search(said.text))
    ]
    if short.reasoning:
        wrong.append("reasoning comes although enable_thinking is false")
    return Checked(len(base) + 1, tuple(wrong))


def _tools(session: Session) -> Checked:
    """Force one tool call: its arguments must be JSON that the tool's schema allows."""
    extra = {"tools": [_TOOL], "tool_choice": "required"}
    words = Words("Switch on the lamp in the kitchen.", 96, extra=extra)
    said = say(session.client, words)[0]
    if not said.tools:
        raise Refused(200, "no tool was called although one was required")
    if said.finish == "length":
        return Checked(0)
    return Checked(
        1,
        tuple(
            _bad_call(name, arguments)
            for name, arguments in said.tools
            if _bad_call(name, arguments)
        ),
    )


def _bad_call(name: str, arguments: str) -> str:
    if name != "set_lamp":
        return f"a tool {name!r} is called that was not offered"
    try:
        given = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return f"the arguments {arguments[:40]!r} are no JSON"
    fits = isinstance(given, dict) and set(given) == {"state", "room"}
    if not fits or given["state"] not in {"on", "off"} or not isinstance(given["room"], str):
        return f"the arguments {arguments[:40]!r} do not fit the schema"
    return ""
