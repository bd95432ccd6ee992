"""What every endpoint needs: the resolved arguments, the scheduler, the readers, the state."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from specbench.engine.server.abilities import read_without
from specbench.engine.server.faults import ServerFaults
from specbench.engine.server.http import BadRequest, Exchange, first_of
from specbench.engine.server.openai_wire import OpenAIReader
from specbench.engine.server.request import Request, Wish
from specbench.engine.server.scheduler import Scheduler
from specbench.engine.server.wire import Reader
from specbench.engine.tokenizer import Tokenizer


class Backend:
    """One loaded server. `ready` turns true after the warm-up, `stopping` with SIGTERM."""

    def __init__(
        self,
        args: dict[str, Any],
        facts: dict[str, Any],
        tokenizer: Tokenizer,
        scheduler: Scheduler,
        faults: ServerFaults,
    ) -> None:
        self.args, self.facts, self.tokenizer = args, facts, tokenizer
        self.scheduler, self.faults = scheduler, faults
        self.width = int(args["speculative_num_draft_tokens"] or 0)
        self.reader = Reader(
            tokenizer,
            min(int(facts["context_len"]), int(facts["kv_tokens"]) - max(1, self.width)),
            args["preferred_sampling_params"],
        )
        self.openai = OpenAIReader(
            self.reader,
            str(args["sampling_defaults"]),
            bool(args["stream_response_default_include_usage"]),
        )
        self.lacking = read_without(args["without"])
        self.ready = False
        self.stopping = False
        self.unhealthy = False

    def piece(self, token: int) -> str:
        """Return the text of one token, as logprobs show it."""
        return self.tokenizer.decode([token], skip_special=False)

    def submit(self, wishes: list[Wish], exchange: Exchange) -> list[Request]:
        """Queue the wishes of one body. Raises BadRequest when they cannot be served."""
        if self.stopping:
            raise BadRequest("Server is shutting down.", 503)
        self.faults.refuse_request()
        if self.scheduler.full:
            raise BadRequest("The request queue is full.", 503)
        return [self.scheduler.submit(wish, exchange.arrived) for wish in wishes]

    async def wait(self, exchange: Exchange, requests: list[Request]) -> None:
        """Wait for all of them; a client that disconnects takes its requests with it."""

        async def all_done() -> None:
            for request in requests:
                await request.done()

        try:
            await first_of(all_done(), exchange)
        finally:
            self.drop(requests)

    async def stream(
        self, exchange: Exchange, requests: list[Request], events: AsyncIterator[bytes]
    ) -> None:
        """Send the events of requests; a client that disconnects takes its requests with it."""
        watch = asyncio.ensure_future(exchange.gone())
        watch.add_done_callback(lambda _: self.drop(requests))
        try:
            await exchange.events(self.faults.tamper(events))
        finally:
            watch.cancel()
            self.drop(requests)

    def drop(self, requests: list[Request]) -> None:
        """End whatever of `requests` is not over."""
        for request in requests:
            self.scheduler.drop(request)
