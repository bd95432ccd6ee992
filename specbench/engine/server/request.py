"""One request inside the server: what was asked, what has been emitted, who waits for it."""

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import LogprobWish, Sequence, TokenLogprob
from specbench.engine.server.prefix_cache import Node
from specbench.engine.tokenizer import TextStream


@dataclass(frozen=True, slots=True)
class Wish:
    """What one client request asks of the engine, checked and with defaults filled in."""

    rid: str
    prompt_ids: list[int]
    params: SamplingParams
    stop: tuple[str, ...] = ()
    no_stop_trim: bool = False
    skip_special: bool = True
    stream: bool = False
    namespace: Hashable = None
    logprobs: LogprobWish | None = None
    logprob_start: int = -1
    deaf: bool = False


@dataclass(eq=False, slots=True)
class Request:
    """A wish on its way through the scheduler; the HTTP side reads it and waits on `changed`."""

    wish: Wish
    sequence: Sequence
    pieces: TextStream
    spoil: Callable[[str], str]
    received: float = field(default_factory=time.time)
    began: float = field(default_factory=time.monotonic)
    arrived: float = 0.0
    text: str = ""
    ids: list[int] = field(default_factory=list)
    safe_chars: int = 0
    finish: dict[str, Any] | None = None
    input_logprobs: list[TokenLogprob] = field(default_factory=list)
    cached_tokens: int = 0
    retractions: int = 0
    node: Node[Any] | None = None
    dispatched: float = 0.0
    forward_entry: float = 0.0
    prefill_finished: float = 0.0
    queue_s: float = 0.0
    first_token_s: float = 0.0
    finished_at: float = 0.0
    e2e_s: float = 0.0
    seen_steps: int = 0
    seen_accepted: int = 0
    waiter: asyncio.Future[None] | None = None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.wish.prompt_ids)

    def known_ids(self) -> list[int]:
        """Prompt and output."""
        return [*self.wish.prompt_ids, *self.sequence.output_ids]

    def absorb(self) -> int:
        """Take over what the engine has emitted since last time; return the number of tokens.

        Ends the request at the token that completes a stop string, and drops what follows it.
        """
        new = self.sequence.output_ids[len(self.ids) :]
        before = len(self.ids)
        if self.wish.stop:
            self._absorb_until_stop(new)
        else:
            self.ids += new
            self.text += self.spoil(self.pieces.push(new))
            self.safe_chars = len(self.text)
        if self.finish is None and self.wish.params.max_new_tokens == 0:
            self.finish = {"type": "length", "length": 0}
        if self.finish is None and self.sequence.finish is not None:
            self._end_text()
            self.finish = self._reason()
        return len(self.ids) - before

    def _absorb_until_stop(self, new: list[int]) -> None:
        for token in new:
            self.ids.append(token)
            self.text += self.spoil(self.pieces.push([token]))
            if self._stopped():
                return
        self.safe_chars = len(self.text) - _held_back(self.text, self.wish.stop)

    def _stopped(self) -> bool:
        """Look for the first stop string; the text ends before it (or behind, untrimmed)."""
        begin = max(0, self.safe_chars)
        found = [(at, s) for s in self.wish.stop if (at := self.text.find(s, begin)) >= 0]
        if not found:
            return False
        at, stop = min(found)
        self.text = self.text[: at + len(stop) if self.wish.no_stop_trim else at]
        self.safe_chars = len(self.text)
        self.finish = {"type": "stop", "matched": stop}
        return True

    def _end_text(self) -> None:
        self.text += self.spoil(self.pieces.finish())
        if not self._stopped():
            self.safe_chars = len(self.text)

    def _reason(self) -> dict[str, Any]:
        finish = self.sequence.finish
        if self.finish is not None or finish is None:
            return self.finish or {}
        if finish.type == "length":
            return {"type": "length", "length": len(self.ids)}
        return {"type": finish.type, "matched": finish.matched}

    def abort(self, message: str = "Abort in waiting queue") -> None:
        """End the request from outside."""
        if self.finish is None:
            self.finish = {"type": "abort", "message": message, "status_code": None}
            self.finish["err_type"] = None
            self.close()

    def close(self) -> None:
        """Note the time of the end and wake whoever waits."""
        self.finished_at = time.time()
        self.e2e_s = time.monotonic() - self.began
        self.notify()

    def notify(self) -> None:
        """Wake the reader, if it waits."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def changed(self) -> None:
        """Wait for the next notification."""
        self.waiter = asyncio.get_running_loop().create_future()
        await self.waiter

    async def done(self) -> None:
        """Wait for the end."""
        while self.finish is None:
            await self.changed()


def _held_back(text: str, stops: tuple[str, ...]) -> int:
    """Characters at the end of `text` that may be the beginning of a stop string."""
    longest = max(len(stop) for stop in stops) - 1
    return next(
        (
            size
            for size in range(min(longest, len(text)), 0, -1)
            if any(stop.startswith(text[-size:]) for stop in stops)
        ),
        0,
    )
