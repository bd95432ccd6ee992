"""Ways in which a server breaks on purpose, apart from what it computes.

The clean path calls four seams: a phase of the load begins, a request arrives, a step begins, a
stream is sent. Without faults each of them does nothing.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from typing import NoReturn

from specbench.engine.server.http import BadRequest, CutStream, event
from specbench.engine.server.log import logger

SERVER_FAULTS: dict[str, str] = {
    "oom-load": "CUDA out of memory while the weights are loaded.",
    "oom-graphs": "CUDA out of memory while the graphs are captured.",
    "no-kv-room": "The weights leave no memory for the KV cache.",
    "port-conflict": "Somebody takes the port during the load.",
    "warmup-fails": "The first request fails.",
    "crash-under-load": "The scheduler raises after 16 requests.",
    "oom-under-load": "CUDA out of memory after 16 requests.",
    "native-crash": "The scheduler process dies without a word after 16 requests.",
    "http-500": "Every fifth request is answered with status 500.",
    "cut-stream": "Every fifth stream breaks off after its third event.",
    "error-event": "Every fifth stream ends with an error event after its third event.",
    "endless-stream": "Every fifth stream never ends.",
    "slow-drain": "SIGTERM is obeyed only after a minute.",
    "zombie": "Healthy, but no token is emitted after 16 requests.",
    "hang-under-load": "No token is emitted after 16 requests, and /health says so.",
}
AFTER_REQUESTS = 16
EVERY = 5
EVENTS_BEFORE = 3

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB."
GRAPHS = """Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.50 GiB.
Possible solutions:
1. set --mem-fraction-static to a smaller value
2. set --cuda-graph-max-bs-decode to a smaller value"""
NO_ROOM = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
LOAD_ERRORS = {
    "oom-load": ("weights", OOM),
    "oom-graphs": ("graphs", GRAPHS),
    "no-kv-room": ("kv_cache", NO_ROOM),
}


def die() -> NoReturn:
    """End like SGLang after a child's death: by SIGKILL to oneself (status 137)."""
    for handler in logger.handlers:
        handler.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(137)


class ServerFaults:
    """The faults that are switched on, and how often their occasion has come."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self.names = names
        self.requests = self.streams = 0

    def during_load(self, phase: str) -> None:
        """Break the load if this phase, which begins, is where a fault sits."""
        for name, (where, message) in LOAD_ERRORS.items():
            if name in self.names and where == phase:
                crash_scheduler(message, loading=True)

    def refuse_request(self) -> None:
        """Count a request. Raises BadRequest (500) for an unlucky one."""
        self.requests += 1
        if "http-500" in self.names and self.requests % EVERY == 0:
            raise BadRequest("Internal Server Error", 500)

    def before_step(self) -> bool:
        """Break before a step; True when the scheduler must stand still."""
        if self.requests <= AFTER_REQUESTS:
            return False
        if "crash-under-load" in self.names:
            crash_scheduler("RuntimeError: CUDA error: an illegal memory access was encountered")
        if "oom-under-load" in self.names:
            crash_scheduler(OOM)
        if "native-crash" in self.names:
            logger.error(
                "Subprocess scheduler_0 (pid=%d) crashed with exit code -6. Triggering SIGQUIT "
                "for cleanup...", os.getpid(),
            )  # fmt: skip
            logger.error(
                "SIGQUIT received. signum=None, frame=None. It usually means one child failed."
            )
            die()
        return bool(self.names & {"zombie", "hang-under-load"})

    async def tamper(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass the events of a stream on; spoil every fifth one. Raises CutStream."""
        self.streams += 1
        spoil = self.streams % EVERY == 0
        sent = 0
        async for item in events:
            yield item
            sent += 1
            if not spoil or sent != EVENTS_BEFORE:
                continue
            if "cut-stream" in self.names:
                raise CutStream
            if "error-event" in self.names:
                error = {
                    "message": "Internal error in the scheduler",
                    "type": "InternalServerError",
                }
                yield event({"error": error | {"code": 500, "retryable": False}})
                return
        if spoil and "endless-stream" in self.names:
            await asyncio.Event().wait()


def crash_scheduler(message: str, *, loading: bool = False) -> NoReturn:
    """Log what SGLang logs when its scheduler raises, and die as it does."""
    trace = f"Traceback (most recent call last):\n  [engine fault]\n{message}"
    logger.error("Scheduler hit an exception: %s\n", trace)
    if loading:
        logger.error("Received sigquit from a child process. It usually means the child failed.")
    else:
        logger.error(
            "SIGQUIT received. signum=None, frame=None. It usually means one child failed."
        )
    time.sleep(0.05)
    die()
