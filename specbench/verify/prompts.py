"""The battery's own prompts, as token ids of the model that the server really has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files

import msgspec

Tokenise = Callable[[str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Prompts:
    """Token ids: natural `chat`, `short` answers (these end by themselves), `long` contexts.

    `texts` are fixed paragraphs whose scores identify the target; `turn` continues a dialogue.
    """

    chat: tuple[tuple[int, ...], ...]
    short: tuple[tuple[int, ...], ...]
    long: tuple[tuple[int, ...], ...]
    texts: tuple[tuple[int, ...], ...]
    turn: tuple[int, ...]

    @property
    def sha256(self) -> str:
        """The hash of all ids: equal only for equal prompts and an equal tokeniser."""
        whole = [self.chat, self.short, self.long, self.texts, self.turn]
        return hashlib.sha256(msgspec.json.encode(whole)).hexdigest()

    def mixed(self, count: int, offset: int = 0) -> list[tuple[int, ...]]:
        """Return `count` prompts, natural and short ones in turn, from `offset` on."""
        pool = [p for pair in zip(self.chat, self.short, strict=True) for p in pair]
        return [pool[(offset + k) % len(pool)] for k in range(count)]


def load_prompts(tokenise: Tokenise, context: int, long_count: int) -> Prompts:
    """Tokenise the shipped set; long ones have about 1200 tokens, or two thirds of `context`."""
    raw = files("specbench.data").joinpath("verify_prompts.jsonl").read_bytes()
    rows = [msgspec.json.decode(line) for line in raw.splitlines() if line]
    by_kind: dict[str, list[str]] = {"chat": [], "short": [], "paragraph": []}
    for row in rows:
        by_kind[row["kind"]].append(row["text"])
    paragraphs = [tokenise(text) for text in by_kind["paragraph"]]
    target = min(1200, context * 2 // 3)
    return Prompts(
        chat=tuple(tokenise(f"User: {text}\nAssistant:") for text in by_kind["chat"]),
        short=tuple(tokenise(f"Question: {text}\nAnswer:") for text in by_kind["short"]),
        long=tuple(_long(paragraphs, k, target) for k in range(long_count)),
        texts=tuple(paragraphs[:8]),
        turn=tokenise("\nUser: Please go on.\nAssistant:"),
    )


def _long(paragraphs: Sequence[tuple[int, ...]], shift: int, target: int) -> tuple[int, ...]:
    """Paragraphs in an order of their own, repeated until `target` tokens are reached."""
    ids: list[int] = []
    step = 0
    while len(ids) < target:
        ids.extend(paragraphs[(shift * 3 + step * (shift + 1)) % len(paragraphs)])
        step += 1
    return tuple(ids[:target])
