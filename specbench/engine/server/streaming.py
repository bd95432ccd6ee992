"""Turn notifications of requests into updates: what is new since the reader last looked."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from specbench.engine.server.request import Request


@dataclass(frozen=True, slots=True)
class Update:
    """News of the `index`-th request; `tokens` and `chars` were already sent; `over`: its last."""

    index: int
    request: Request
    tokens: int
    chars: int
    over: bool

    @property
    def new_text(self) -> str:
        """The characters that are new and can no longer belong to a stop string."""
        return self.request.text[self.chars : self.request.safe_chars]


async def _updates_of(index: int, request: Request, interval: int) -> AsyncIterator[Update]:
    """One update a step of at least `interval` tokens; missed steps are joined into one."""
    tokens = chars = 0
    while True:
        over = request.finish is not None
        new = len(request.ids) - tokens
        if over or new >= (interval if tokens else 1):
            update = Update(index, request, tokens, chars, over)
            tokens, chars = len(request.ids), request.safe_chars
            yield update
            if over:
                return
        elif not over:
            await request.changed()


async def updates(requests: list[Request], interval: int = 1) -> AsyncIterator[Update]:
    """Yield the updates of all requests of one body, in the order in which they arise.

    After the first, an update waits for `interval` new tokens (`--stream-interval`).
    """
    if len(requests) == 1:
        async for update in _updates_of(0, requests[0], interval):
            yield update
        return
    queue: asyncio.Queue[Update] = asyncio.Queue()

    async def pump(index: int, request: Request) -> None:
        async for update in _updates_of(index, request, interval):
            queue.put_nowait(update)

    pumps = [asyncio.ensure_future(pump(i, request)) for i, request in enumerate(requests)]
    try:
        left = len(pumps)
        while left:
            update = await queue.get()
            left -= update.over
            yield update
    finally:
        for task in pumps:
            task.cancel()
