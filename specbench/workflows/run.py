"""Run a matrix: each host works through its blocks, and every step is an event.

A run is an iterator of events and prints nothing. Closing it (Ctrl-C) stops the load, stops the
servers that specbench started, and leaves a recording that the same command goes on with.
"""

import queue
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specbench.errors import HostError
from specbench.model.event import (
    HostFailed,
    RunEvent,
    RunFinished,
    RunStarted,
    TrialFinished,
)
from specbench.model.host import LAUNCHER_TRAITS
from specbench.model.plan import Block
from specbench.recording import Writer
from specbench.recording.entries import Planned, RunEnded
from specbench.workflows.block import measure_block
from specbench.workflows.lab import Lab
from specbench.workflows.prepare import Prepared, RunOptions, open_writer, prepare
from specbench.workflows.progress import Progress
from specbench.workflows.tables import write_tables
from specbench.workflows.trial_context import Bench

if TYPE_CHECKING:
    from specbench.launchers import Launcher


@dataclass(frozen=True)
class _Ended:
    """A host has no more to do; `error` is what stopped it, if anything did."""

    host: str
    error: BaseException | None = None


def run_matrix(options: RunOptions, lab: Lab) -> Generator[RunEvent, None, None]:
    """Measure what the matrix asks for and no recording holds yet.

    Raises InputError before anything is started; RecordingError when the recording is in use or
    cannot be written. Failed servers and unreachable hosts are events, and the run goes on.
    """
    prepared = prepare(options)
    with open_writer(prepared) as writer:
        root = str(writer.paths.root)
        yield RunStarted(recording=root, plan=prepared.plan, resumed=writer.resumed)
        writer.note(Planned(trials=len(prepared.plan.trials), invalid=prepared.plan.invalid))
        progress, secrets = Progress(prepared.plan), prepared.secrets
        try:
            for event in map(secrets.hide_in, _work(prepared, writer, lab)):
                progress.take(event)
                if state := progress.due():
                    writer.heartbeat(state)
                yield event
        finally:
            progress.end()
            writer.heartbeat(progress.state())
            writer.note(RunEnded(measured=progress.measured, failed=progress.failed))
            write_tables(writer)
        yield _finished(prepared, progress, root)


def _finished(prepared: Prepared, progress: Progress, root: str) -> RunFinished:
    done = sum(reason.state == "done" for reason in prepared.plan.reasons)
    return RunFinished(
        recording=root,
        measured=progress.measured,
        already_done=done,
        failed=progress.failed,
        invalid=len(prepared.plan.invalid),
        exit_status=_exit_status(progress),
        kept=progress.kept,
    )


def _exit_status(progress: Progress) -> int:
    """Choose the exit status of contract section 2; what hides more of the rest comes first."""
    if progress.hosts_failed:
        return 4
    if progress.failed:
        return 3
    if "violated" in progress.verdicts:
        return 1
    return 5 if "inconclusive" in progress.verdicts else 0


def _work(prepared: Prepared, writer: Writer, lab: Lab) -> Generator[RunEvent, None, None]:
    """Let every host work through its blocks, in parallel; yield their events as they come."""
    events: queue.Queue[RunEvent | _Ended] = queue.Queue()
    stop = threading.Event()
    hosts = list(dict.fromkeys(block.host for block in prepared.plan.blocks))
    threads = [
        threading.Thread(
            target=_work_host,
            args=(_bench(prepared, writer, lab, name, stop), prepared, events),
            name=f"host {name}",
        )
        for name in hosts
    ]
    for thread in threads:
        thread.start()
    try:
        yield from _merge(events, len(threads))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _merge(
    events: "queue.Queue[RunEvent | _Ended]", running: int
) -> Generator[RunEvent, None, None]:
    """Yield events until every host has ended; a bug in a host's thread is raised here."""
    while running:
        try:
            event = events.get(timeout=0.5)  # a bounded wait lets Ctrl-C through
        except queue.Empty:
            continue
        if not isinstance(event, _Ended):
            yield event
            continue
        running -= 1
        match event.error:
            case None:
                pass
            case HostError() as error:
                yield HostFailed(host=event.host, what=str(error), hint=error.hint or "")
            case error:
                raise error


def _bench(prepared: Prepared, writer: Writer, lab: Lab, host: str, stop: threading.Event) -> Bench:
    return Bench(
        matrix=prepared.matrix,
        datasets=dict(prepared.datasets),
        host=prepared.hosts[host],
        writer=writer,
        lab=lab,
        stopped=stop.is_set,
        kept_block=_kept_block(prepared, host),
    )


def _kept_block(prepared: Prepared, host: str) -> str | None:
    """Name the block whose server is left running: a host's last; an attached one runs anyway."""
    starts = LAUNCHER_TRAITS[prepared.hosts[host].launcher].starts
    if not (prepared.keep_service and starts):
        return None
    return [block.block_id for block in prepared.plan.blocks if block.host == host][-1]


def _work_host(bench: Bench, prepared: Prepared, events: "queue.Queue[RunEvent | _Ended]") -> None:
    """Run one host's blocks in this thread. What stops it travels to the main thread."""
    error: BaseException | None = None
    try:
        past = prepared.past.load_phases(bench.host.name, prepared.matrix.model.path)
        with closing(bench.lab.launcher(bench.host, past)) as launcher:
            for block in prepared.plan.blocks:
                if block.host == bench.host.name and not bench.stopped():
                    _work_block(bench, block, launcher, events)
    except BaseException as caught:  # noqa: BLE001 - it is raised again in the main thread
        error = caught
    events.put(_Ended(bench.host.name, error))


def _work_block(
    bench: Bench, block: Block, launcher: "Launcher", events: "queue.Queue[RunEvent | _Ended]"
) -> None:
    with closing(measure_block(bench, block, launcher)) as working:
        for event in working:
            events.put(event)
            if bench.stopped() and not isinstance(event, TrialFinished):
                return
