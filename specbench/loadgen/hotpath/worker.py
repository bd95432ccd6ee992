"""A worker process: reads its WorkerSpec from standard input, drives its share, tells the parent.

    parent -> worker   one line: a WorkerSpec; then "go <monotonic ns>"; more, or the end: abort
    worker -> parent   Ready | Refused, then DriveProgress twice a second, then WorkerSummary

A worker ignores SIGINT: the terminal sends Ctrl-C to both, and the parent decides. When the parent
dies in whatever way, standard input ends and the worker stops too.
"""

import gc
import os
import resource
import signal
import sys
import time

import msgspec

from specbench.errors import InputError, SpecbenchError
from specbench.loadgen.hotpath.client_stats import Window, WorkerSummary
from specbench.loadgen.hotpath.loop import Loop
from specbench.loadgen.hotpath.pacing import new_pacer
from specbench.loadgen.hotpath.poller import READ, Poller
from specbench.loadgen.hotpath.pool import Pool
from specbench.loadgen.hotpath.record_writer import RecordWriter, SinkFailed
from specbench.loadgen.hotpath.request_source import RequestSource
from specbench.loadgen.messages import Message, Ready, Refused, WorkerSpec
from specbench.loadgen.schedule import Share
from specbench.model.load import Closed, DriveProgress, LoadSpec
from specbench.model.secrets import Secrets

STDIN, STDOUT = 0, 1
SPARE_CONNECTIONS = 16
PROGRESS_LOOKS = 5
_PR_SET_TIMERSLACK = 29


def main() -> None:
    """Run one worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = _line()
    if not order.endswith(b"\n"):
        return  # the parent died before it had said what is to be done
    spec = msgspec.json.decode(order, type=WorkerSpec)
    try:
        _drive(spec)
    except SpecbenchError as error:
        _say(Refused.by(error))
    except SinkFailed as error:
        _say(Refused(what=f"cannot write the rows to {spec.sink}: {error}"))


def _drive(spec: WorkerSpec) -> None:
    load, share = spec.load, spec.share
    poller = Poller()
    pool = Pool(spec.endpoint, poller)
    wanted = _connections(load, share)
    _allow_descriptors(wanted + 64)
    source = RequestSource(
        load, share, spec.endpoint, drive_id=spec.drive_id, ahead=max(64, min(wanted, 4096))
    )
    key = os.environ.get(load.target.api_key_env or "", "")
    writer = RecordWriter(spec.sink, Secrets.of([key]))
    opened = pool.warm(wanted, load.connect_timeout_s)
    failure = "" if pool.last_failure is None else ": ".join(pool.last_failure)
    _say(Ready(worker=share.index, opened=opened, wanted=wanted, failure=failure))
    go = _line().split()
    if go[:1] != [b"go"]:
        return
    origin_ns = int(go[1])
    source.origin_ns = origin_ns
    poller.register(STDIN, READ)
    _steady_process(precise=not isinstance(load.shape, Closed))
    window = Window(_target(load, share, source.limit))
    progress = _Progress(writer, origin_ns)
    loop = Loop(
        load,
        poller=poller,
        pool=pool,
        source=source,
        pacer=new_pacer(load, share, origin_ns),
        writer=writer,
        window=window,
        control=STDIN,
        report=lambda: progress.tell(loop, measured=window.measured_start is not None),
    )
    _sleep_until(origin_ns)
    cpu, began = time.process_time_ns(), time.monotonic_ns()
    loop.run()
    cpu_ns, wall_ns = time.process_time_ns() - cpu, max(time.monotonic_ns() - began, 1)
    pool.close()
    writer.close()
    figures = {"worker": share.index, "cpu_ns": cpu_ns, "cpu_share": cpu_ns / wall_ns}
    _say(_summary(loop, writer, window, origin_ns, figures))


def _summary(
    loop: Loop, writer: RecordWriter, window: Window, origin_ns: int, figures: dict[str, float]
) -> WorkerSummary:
    times = {
        "measured_start_ns": window.measured_start,
        "measured_end_ns": window.measured_end,
        "window_start_ns": window.opened,
        "window_end_ns": window.closed,
    }
    return msgspec.convert(
        {
            "type": "worker_summary",
            "requests": writer.rows,
            "failed": writer.failed,
            "answered": writer.answered,
            "unreachable": writer.unreachable,
            "output_tokens": writer.output_tokens,
            "interrupted": loop.interrupted,
            "gave_up": loop.gave_up,
            "clock_drift_ns": loop.clock.drift_ns,
            "clock_steps": loop.clock.steps,
            "first_failure": writer.first_failure,
            **{name: None if at is None else at - origin_ns for name, at in times.items()},
            **figures,
            **writer.stats.figures(),
        },
        WorkerSummary,
    )


class _Progress:
    """Tells how it goes, every fifth look; what the pipe has no room for is not said."""

    def __init__(self, writer: RecordWriter, origin_ns: int) -> None:
        self._writer = writer
        self._origin = origin_ns
        self._looks = 0
        os.set_blocking(STDOUT, False)

    def tell(self, loop: Loop, *, measured: bool) -> None:
        """Count a look."""
        self._looks += 1
        if self._looks % PROGRESS_LOOKS:
            return
        settled = self._writer
        steps = settled.verify_steps
        message = DriveProgress(
            elapsed_s=(time.monotonic_ns() - self._origin) / 1e9,
            in_flight=loop.in_flight,
            silent_s=loop.patience.silent_ns / 1e9,
            finished=settled.rows,
            failed=settled.failed,
            output_tokens=settled.output_tokens,
            accept_len=1 + settled.accepted / steps if steps else None,
            phase="measured" if measured else "warmup",
        )
        try:
            _write(msgspec.json.encode(message) + b"\n")
        except BlockingIOError:
            return


def _connections(load: LoadSpec, share: Share) -> int:
    """How many connections are opened before the start."""
    if isinstance(load.shape, Closed):
        return share.count(load.shape.concurrency)
    return SPARE_CONNECTIONS


def _target(load: LoadSpec, share: Share, limit: int | None) -> int | None:
    """Give the number in flight that counts as steady: slots, or requests if they are fewer."""
    if not isinstance(load.shape, Closed):
        return None
    slots = share.count(load.shape.concurrency)
    return slots if limit is None else min(slots, limit)


def _allow_descriptors(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = hard if hard != resource.RLIM_INFINITY else max(soft, wanted)
    if wanted > allowed:
        raise InputError(
            f"{wanted} connections need more open files than this process may have ({allowed})",
            hint="raise the hard limit (ulimit -Hn), or ask for less concurrency",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, allowed)), hard))


def _steady_process(*, precise: bool) -> None:
    """Keep the collector out of the drive, which makes no cycles; let sleeps end on time."""
    gc.collect()
    gc.disable()
    if precise and sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - slow, and only wanted here

        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def _sleep_until(at_ns: int) -> None:
    left = at_ns - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)


def _line() -> bytes:
    """Read one line from standard input without reading beyond it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(STDIN, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _say(message: Message) -> None:
    os.set_blocking(STDOUT, True)
    line = msgspec.json.encode(message) + b"\n"
    while line:
        line = line[_write(line) :]


def _write(piece: bytes) -> int:
    """Write to the parent; end quietly when it is gone, because nobody is left to be told."""
    try:
        return os.write(STDOUT, piece)
    except BrokenPipeError:
        sys.exit(1)


if __name__ == "__main__":
    main()
