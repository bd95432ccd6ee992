"""A hand-written server that also answers by text: chats, and a grammar of six letters."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specbench.backends.backend import HttpRequest
from specbench.verify.grammar import LETTERS
from specbench.verify.refused import Refused
from tests.verify.fake_server import FakeServer

ANSWER = "One, two, three, four, five, six, seven, eight, nine, ten, eleven and twelve are numbers."
THOUGHT = "The user wants numbers."


@dataclass
class Talker(FakeServer):
    """`slips`: unmasked (a later letter may be illegal), greedy_letters (later letters are never
    drawn), wrong_letters (later greedy letters are the least likely), stop_left (a stop string is
    given in part), stream_loses (a streamed chunk loses a character), tag_left (a thinking tag in
    the content), bad_call (arguments that are no JSON), bad_json (a value outside the schema),
    space_apart (no fault: a letter and the space before it are two tokens).

    `key` is the field that takes a regular expression; "" ignores all, None refuses them.
    """

    slips: frozenset[str] = frozenset()
    key: str | None = "regex"
    thinks: bool = True
    letters: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.letters = 2 * np.random.default_rng(5).normal(size=(7, 7, 6))

    def post(self, request: HttpRequest) -> bytes:
        body = json.loads(request.body)
        if "prompt" in body:
            choices = [self._completed(body) for _ in range(body.get("n", 1))]
        else:
            choices = [self._chatted(body) for _ in range(body.get("n", 1))]
        return json.dumps({"choices": choices, "usage": {"completion_tokens": 4}}).encode()

    def stream(self, request: HttpRequest) -> list[bytes]:
        text = ANSWER
        parts = [text[k : k + 7] for k in range(0, len(text), 7)]
        if "stream_loses" in self.slips:
            parts[3] = parts[3][1:]
        deltas: list[dict[str, Any]] = [{"reasoning_content": THOUGHT}] if self.thinks else []
        deltas += [{"content": part} for part in parts]
        return [json.dumps({"choices": [{"delta": d}]}).encode() for d in deltas]

    def _chatted(self, body: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"content": ANSWER}
        thinking = body.get("chat_template_kwargs", {}).get("enable_thinking", True)
        if self.thinks and thinking:
            message["reasoning_content"] = THOUGHT
        if "tag_left" in self.slips:
            message["content"] = "</think>" + ANSWER
        if "tools" in body:
            arguments = '{"state": "on"' + ("" if "bad_call" in self.slips else ', "room": "x"}')
            message = {"tool_calls": [{"function": {"name": "set_lamp", "arguments": arguments}}]}
        if "response_format" in body:
            colour = "pink" if "bad_json" in self.slips else "red"
            message = {"content": json.dumps({"colour": colour, "size": "small"})}
        for stop in body.get("stop", []):
            end = ANSWER.index(stop) + (3 if "stop_left" in self.slips else 0)
            message["content"] = ANSWER[:end]
        return {"message": message, "finish_reason": "stop"}

    def _completed(self, body: dict[str, Any]) -> dict[str, Any]:
        constraints = {"regex", "structured_outputs", "guided_regex", "grammar"} & set(body)
        if constraints and self.key is None:
            raise Refused(400, "grammars are not supported")
        if not constraints or constraints != {self.key}:
            text = body["prompt"] + " wide." if body.get("echo") else " wide."
            return {"text": text, "finish_reason": "stop"}
        pattern = json.dumps(body[str(self.key)]).replace("root ::= ", "")
        apart = pattern.lstrip('{"regx: ').startswith("[A-F]")
        if "space_apart" in self.slips and not apart:
            return {"text": " ", "finish_reason": "length"}
        wanted = re.search(r"\{(\d+)\}", pattern)
        count = min(int(wanted.group(1) if wanted else 0) + apart, body["max_tokens"])
        before = re.sub(r"[^A-F ]", "", body["prompt"].rsplit(":", 1)[1]).split()
        given: list[str] = []
        while len(given) < count:
            given.append(self._letter([*before, *given], len(given), body["temperature"]))
        return {"text": "".join(f" {one}" for one in given), "finish_reason": "stop"}

    def _letter(self, before: list[str], place: int, temperature: float) -> str:
        past = [LETTERS.index(one) + 1 if one in LETTERS else 0 for one in before[-2:]]
        row = self.letters[tuple([0, 0, *past][-2:])]
        later = place > 0
        if later and "unmasked" in self.slips and self.rng.random() < 0.05:
            return "Z"
        if temperature == 0 or (later and "greedy_letters" in self.slips):
            wrong = later and "wrong_letters" in self.slips
            return LETTERS[int(row.argmin() if wrong else row.argmax())]
        p = np.exp(row - row.max())
        return LETTERS[int(self.rng.choice(6, p=p / p.sum()))]
