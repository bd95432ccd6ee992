"""The entry to the load generator: a blocking generator over worker processes."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from specbench.errors import DriveFailed, HostError
from specbench.loadgen.accuracy import report
from specbench.loadgen.hotpath.client_stats import WorkerSummary
from specbench.loadgen.hotpath.endpoint import resolve
from specbench.loadgen.messages import Message, Ready, Refused, WorkerSpec
from specbench.loadgen.schedule import Share, check_load, choose_processes
from specbench.model.load import DriveEvent, DriveProgress, LoadSpec

LEAD_NS = 50_000_000
"""Between the word "go" and the first send: all workers wait for the same instant."""
STOP_TIMEOUT_S = 10.0
HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""The reads of hundreds of streams are kept side by side: with 4 KiB pages an event pays 1 to 2 us
of page faults and cache misses of the page tables. Another C library passes over it."""
_decode: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def drive(
    load: LoadSpec,
    sink: Path,
    *,
    share: Share | None = None,
    start_unix_ns: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Generator[DriveEvent, None, None]:
    """Send a load, append one JSON line a request to `sink`, and tell how it goes.

    Yields DriveProgress about twice a second and one DriveReport at the end. Closing the generator,
    or Ctrl-C, aborts: requests in flight become rows `aborted`, no process survives. `share` and
    `start_unix_ns` are for a drive from several hosts: this one's part, and the common start. Once
    `stopped` says so, what is in flight is aborted and the report is of what came until then.

    Raises InputError for a load that cannot be driven, DriveFailed when nothing can be reached or a
    worker dies, HostError when rows cannot be written.
    """
    check_load(load)
    endpoint = resolve(load.target, load.connect_timeout_s)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = choose_processes(load, cores or 1)
    drive_id = os.urandom(4).hex()
    wanted = msgspec.structs.replace(load, keep_text=load.keep_text or load.retokenise)
    specs = [
        WorkerSpec(
            load=wanted, share=part, endpoint=endpoint, drive_id=drive_id, sink=os.fspath(sink)
        )
        for part in (share or Share()).split(processes)
    ]
    workers = _Workers(specs)
    try:
        workers.ready()
        start_ns, unix_ns = _start(start_unix_ns)
        workers.go(start_ns)
        yield from workers.progress(stopped)
        summaries = workers.summaries
    finally:
        workers.stop()
    _check_reached(summaries, load)
    if load.retokenise:
        from specbench.loadgen.retokenise import retokenise  # noqa: PLC0415 - slow, rarely wanted

        retokenise(sink, load, drive_id)
    yield report(summaries, start_unix_ns=unix_ns)


def _start(start_unix_ns: int | None) -> tuple[int, int]:
    """Give the common start on both clocks: soon, or at the instant agreed with other hosts."""
    wall, now = time.time_ns(), time.monotonic_ns()
    if start_unix_ns is None:
        return now + LEAD_NS, wall + LEAD_NS
    if start_unix_ns < wall:
        raise HostError(
            f"the agreed start is over by {(wall - start_unix_ns) / 1e9:.1f} s",
            hint="the clocks of the hosts differ, or this host was slow to get ready",
        )
    return now + start_unix_ns - wall, start_unix_ns


def _check_reached(summaries: Sequence[WorkerSummary], load: LoadSpec) -> None:
    requests = sum(each.requests for each in summaries)
    if requests and requests == sum(each.unreachable for each in summaries):
        first = next(each.first_failure for each in summaries if each.first_failure)
        raise DriveFailed(f"nothing ever answered: {first}", where=load.target.url)


class _Workers:
    """The worker processes of one drive."""

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        self._selector = selectors.DefaultSelector()
        self._buffers: dict[int, bytes] = {}
        self._latest: dict[int, DriveProgress] = {}
        self._ready: list[Ready] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self.summaries: list[WorkerSummary] = []
        for spec in specs:
            worker = _spawn()
            self._workers.append(worker)
            pipe = _pipe(worker.stdout)
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, worker)
            self._tell(worker, msgspec.json.encode(spec))

    def ready(self) -> None:
        """Wait until every worker has its connections. Raises DriveFailed when none has any."""
        while len(self._ready) < len(self._workers):
            self._listen(None)
        if not any(one.opened for one in self._ready):
            failure = next(
                (message.failure for message in self._ready if message.failure), "no connection"
            )
            raise DriveFailed(f"cannot open a connection to the server: {failure}")

    def go(self, start_ns: int) -> None:
        """Let every worker start at the same instant."""
        for worker in self._workers:
            self._tell(worker, b"go %d" % start_ns)

    def progress(self, stopped: Callable[[], bool]) -> Iterator[DriveProgress]:
        """Yield the sum of the workers' progress until all have told their summary."""
        told = False
        while len(self.summaries) < len(self._workers):
            if not told and stopped():
                told = True
                for worker in self._workers:
                    self._tell(worker, b"abort")
            heard = self._listen(0.5)
            if heard and len(self._latest) == len(self._workers):
                yield total_progress(list(self._latest.values()))
                self._latest.clear()

    def stop(self) -> None:
        """Take the message from every worker and see it end, by force after a while."""
        for worker in self._workers:
            _pipe(worker.stdin).close()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for worker in self._workers:
            self._end(worker, deadline)
            _pipe(worker.stdout).close()
        self._selector.close()

    def _end(self, worker: subprocess.Popen[bytes], deadline: float) -> None:
        """Wait for a worker, emptying its pipe so that it can finish what it has to say."""
        pipe = _pipe(worker.stdout)
        while worker.poll() is None:
            if time.monotonic() > deadline:
                worker.kill()
                worker.wait()
                return
            while pipe.read(1 << 16):
                pass
            time.sleep(0.005)

    def _tell(self, worker: subprocess.Popen[bytes], line: bytes) -> None:
        pipe = _pipe(worker.stdin)
        try:
            pipe.write(line + b"\n")
            pipe.flush()
        except BrokenPipeError:
            return  # its death is found, with its cause, when it is listened to

    def _listen(self, timeout_s: float | None) -> bool:
        """Take what the workers say; gives whether there was anything."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            worker: subprocess.Popen[bytes] = key.data
            chunk = _pipe(worker.stdout).read(1 << 20)
            if not chunk:
                self._selector.unregister(key.fileobj)
                self._check_end(worker)
                continue
            lines = (self._buffers.get(key.fd, b"") + chunk).split(b"\n")
            self._buffers[key.fd] = lines.pop()
            for line in lines:
                self._take(key.fd, _decode.decode(line))
        return bool(ready)

    def _take(self, fd: int, message: Message) -> None:
        match message:
            case Ready():
                self._ready.append(message)
            case DriveProgress():
                self._latest[fd] = message
            case WorkerSummary():
                self.summaries.append(message)
            case Refused():
                raise message.error()

    def _check_end(self, worker: subprocess.Popen[bytes]) -> None:
        status = worker.wait()
        if status != 0 or len(self.summaries) < len(self._workers) - self._open():
            raise DriveFailed(
                f"a load worker {_how(status)}",
                hint="this machine may have run out of memory (dmesg tells); "
                "what the worker said before is above",
            )

    def _open(self) -> int:
        return len(self._selector.get_map())


def _spawn() -> subprocess.Popen[bytes]:
    """Start a worker of this very package, be it a directory or a zip file."""
    home = os.fspath(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    tunables = ":".join(filter(None, [os.environ.get("GLIBC_TUNABLES"), HUGE_PAGES]))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "specbench.loadgen.hotpath.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "GLIBC_TUNABLES": tunables},
        bufsize=-1,
        start_new_session=True,
    )


def _how(status: int) -> str:
    """Say how a process ended."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("a worker is always started with pipes")
    return stream


def total_progress(parts: Sequence[DriveProgress]) -> DriveProgress:
    """Add the progress of several workers up."""
    lengths = [part.accept_len for part in parts if part.accept_len is not None]
    return DriveProgress(
        elapsed_s=max(part.elapsed_s for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        finished=sum(part.finished for part in parts),
        failed=sum(part.failed for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        accept_len=sum(lengths) / len(lengths) if lengths else None,
        phase="measured" if all(part.phase == "measured" for part in parts) else "warmup",
        silent_s=min(part.silent_s for part in parts),
    )
