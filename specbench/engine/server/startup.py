"""From resolved arguments to a serving process, and from a signal to its end."""

import asyncio
import contextlib
import http.client
import json
import logging
import select
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import uvicorn

from specbench.engine.server import args as arguments
from specbench.engine.server import log
from specbench.engine.server.app import application
from specbench.engine.server.backend import Backend
from specbench.engine.server.build import build_backend
from specbench.engine.server.faults import ServerFaults, die
from specbench.engine.server.loading import Loading
from specbench.engine.server.log import logger
from specbench.engine.server.sizing import clock_of, facts_of

WARMUP_PROMPT = "The capital city of France is"
WARMUP_TOKENS = 8
WARMUP_PATIENCE_S = 120.0
CONFLICT_PATIENCE_S = 5.0
WARMUP_POLL_S = 0.02
DRAIN_POLL_S = 0.05
SLOW_DRAIN_S = 60.0


class PreciseSelector(selectors.EpollSelector):
    """Epoll waits in whole milliseconds; select on its descriptor waits in microseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as long as asked, not up to a millisecond longer."""
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: the engine drains first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where it listens, which uvicorn leaves out for a socket that it was given."""
        await super().startup(sockets)
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        logging.getLogger("uvicorn.error").info(
            "Uvicorn running on http://%s:%d (Press CTRL+C to quit)", host, self.config.port
        )


def start(argv: list[str]) -> None:
    """Run a server until it is stopped."""
    log.configure()
    args = arguments.read(argv)
    faults = ServerFaults(frozenset(args["fault"]))
    clock = clock_of(args)
    began = time.monotonic()
    facts = facts_of(args, clock)
    facts["launch_command"] = arguments.launch_command(argv)
    loading = Loading(args, facts, faults)
    backend = build_backend(args, facts, clock, faults)
    loading.run()
    facts["startup_time"] = loading.startup_time
    facts["tokenizer_s"] = time.monotonic() - began
    listener = bind(args, faults)
    if listener is None:
        _end_of_conflict(args)
    args["port"] = listener.getsockname()[1]
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(_serve(backend, listener, loading))


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(PreciseSelector())


def bind(args: dict[str, Any], faults: ServerFaults) -> socket.socket | None:
    """Bind the port, only now; None (with uvicorn's line) when somebody has it."""
    address = (args["host"], args["port"])
    if "port-conflict" in faults.names:
        _squat(address)
    listener = _open_listener(socket.AF_INET6 if ":" in args["host"] else socket.AF_INET)
    try:
        listener.bind(address)
    except OSError as error:
        reason = f"error while attempting to bind on address {address}: {error.strerror}"
        logger.error("ERROR:    [Errno %s] %s", error.errno, reason.lower())
        listener.close()
        return None
    return listener


def _open_listener(family: socket.AddressFamily) -> socket.socket:
    """Make a socket whose connections send each event at once (no Nagle: RFC 896, RFC 9293 3.7.4).

    asyncio switches Nagle's algorithm off only where the protocol is named, and a listener's option
    is what its connections begin with.
    """
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _squat(address: tuple[str, int]) -> None:
    """Fault: take the port, and hang up on whoever calls."""
    squatter = socket.create_server(address)

    def hang_up() -> None:
        while True:
            squatter.accept()[0].close()

    threading.Thread(target=hang_up, daemon=True).start()


def _end_of_conflict(args: dict[str, Any]) -> NoReturn:
    """Do what SGLang does without its port: its warm-up is answered by whoever has it; it dies.

    So the log of the *new* process says that the server is ready.
    """
    if (error := _warm_up(args, CONFLICT_PATIENCE_S)) is None:
        logger.info("The server is fired up and ready to roll!")
    else:
        logger.error("Initialization failed. warmup error: %s", error)
    logger.error(
        "Subprocess scheduler_0 crashed with exit code -9. Triggering SIGQUIT for cleanup..."
    )
    die()


async def _serve(backend: Backend, listener: socket.socket, loading: Loading) -> None:
    args = backend.args
    config = uvicorn.Config(
        application(backend),
        host=args["host"],
        port=args["port"],
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=log.uvicorn_config(args),
        access_log=_access_log(args),
        timeout_keep_alive=30,
        server_header=False,
    )
    server = Server(config)
    stop = Stop(backend, server)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.signalled)
    scheduler = asyncio.ensure_future(backend.scheduler.run())
    scheduler.add_done_callback(_scheduler_ended)
    threading.Thread(target=_warm_up_and_tell, args=(backend, loop, loading), daemon=True).start()
    await server.serve(sockets=[listener])
    scheduler.remove_done_callback(_scheduler_ended)
    scheduler.cancel()
    for handler in log.logger.handlers:
        handler.flush()


def _access_log(args: dict[str, Any]) -> bool:
    return str(args["log_level_http"] or args["log_level"]).lower() in {"info", "debug"}


def _scheduler_ended(task: "asyncio.Task[None]") -> None:
    """End the server after a bug in the scheduler as SGLang does: with its traceback."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("Scheduler hit an exception: ", exc_info=error)
        logger.error(
            "SIGQUIT received. signum=None, frame=None. It usually means one child failed."
        )
        die()


class Stop:
    """SIGTERM drains the running requests and ends with status 0; a second one does not wait."""

    def __init__(self, backend: Backend, server: Server) -> None:
        self.backend, self.server = backend, server
        self._task: asyncio.Task[None] | None = None

    def signalled(self) -> None:
        """Handle one SIGTERM or SIGINT."""
        if self._task is None and not arguments.forced_shutdown():
            self._task = asyncio.ensure_future(self._drain())
            return
        if self._task is not None:
            self._task.cancel()
        self._end()

    async def _drain(self) -> None:
        running = len(self.backend.scheduler.running) + len(self.backend.scheduler.waiting)
        logger.info(
            "SIGTERM received. signum=15 frame=None. Draining requests and shutting down... "
            "(%d remaining)", running,
        )  # fmt: skip
        self.backend.stopping = True
        if "slow-drain" in self.backend.faults.names:
            await asyncio.sleep(SLOW_DRAIN_S)
        while not self.backend.scheduler.idle and not self.backend.unhealthy:  # noqa: ASYNC110 - as SGLang
            await asyncio.sleep(DRAIN_POLL_S)
        self._end()

    def _end(self) -> None:
        self.backend.stopping = True
        self.backend.scheduler.abort(None)
        self.server.should_exit = True


def _warm_up_and_tell(backend: Backend, loop: asyncio.AbstractEventLoop, loading: Loading) -> None:
    """Thread: send the first request through the port, as SGLang does, then declare readiness."""
    with loading.phase("warmup"):
        time.sleep(loading.lengths["warmup"])
        error = None
        if not backend.args["skip_server_warmup"] and not backend.args["node_rank"]:
            error = _warm_up(backend.args, WARMUP_PATIENCE_S)
        if "warmup-fails" in backend.faults.names:
            error = "500 Internal Server Error"
        if error is not None:
            logger.error("Initialization failed. warmup error: %s", error)
            die()

    def tell() -> None:
        backend.ready = True
        logger.info("The server is fired up and ready to roll!")

    loop.call_soon_threadsafe(tell)


def _warm_up(args: dict[str, Any], patience_s: float) -> str | None:
    """Wait for /model_info, then generate eight tokens; return what went wrong."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(args["host"], args["host"])  # noqa: S104
    deadline = time.monotonic() + patience_s
    while (problem := _ask(args, host, "GET", "/model_info", None)) is not None:
        if time.monotonic() > deadline:
            return problem
        time.sleep(WARMUP_POLL_S)
    sampling = {"temperature": 0, "max_new_tokens": WARMUP_TOKENS}
    body = json.dumps({"text": WARMUP_PROMPT, "sampling_params": sampling})
    return _ask(args, host, "POST", "/generate", body)


def _ask(args: dict[str, Any], host: str, method: str, path: str, body: str | None) -> str | None:
    """One request to the port; None when it answered 200, else what happened."""
    headers = {"content-type": "application/json"}
    if args["api_key"]:
        headers["authorization"] = f"Bearer {args['api_key']}"
    connection = http.client.HTTPConnection(host, args["port"], timeout=WARMUP_PATIENCE_S)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return None if answer.status == 200 else f"{answer.status} {answer.reason}"
