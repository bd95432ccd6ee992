"""One launch: start the server, wait out its load, measure its trials, stop it."""

import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from specbench.errors import LoadFailed
from specbench.model.block_facts import BlockFacts
from specbench.model.event import (
    BlockFailed,
    BlockLoading,
    BlockReady,
    BlockStarted,
    Notice,
    RunEvent,
    ServiceKept,
    TrialFinished,
)
from specbench.model.host import LAUNCHER_TRAITS
from specbench.model.plan import Block, Trial
from specbench.model.service import LoadFailure
from specbench.recording import SealedTrial, utc_now
from specbench.recording.entries import BlockBegun, BlockEnded, BlockLost, BlockUp
from specbench.workflows.client import client_facts
from specbench.workflows.trial import measure
from specbench.workflows.trial_context import Bench, ServerDied, server_identity
from specbench.workflows.verify_trial import verify_trial

if TYPE_CHECKING:
    from specbench.launchers import Launcher, Service

LAUNCHES_A_BLOCK = 2
"""A server that dies under load is launched once more for the trials that are left."""

TAIL_LINES, TAIL_BYTES = 12, 8192
"""What is shown of the log of a server whose death has no lines of its own."""


def measure_block(
    bench: Bench, block: Block, launcher: "Launcher"
) -> Generator[RunEvent, None, None]:
    """Launch the block's server and measure its trials; a failure is recorded, never raised.

    Raises HostError when the host cannot be used at all.
    """
    left = list(block.trials)
    for attempt in range(1, LAUNCHES_A_BLOCK + 1):
        before = len(left)
        failure = yield from _attempt(bench, block, launcher, left)
        if failure is None or bench.stopped() or not left:
            return
        if len(left) == before or attempt == LAUNCHES_A_BLOCK:
            yield from _give_up(bench, block, left, failure)
            return
        yield Notice(text=f"launching again for {len(left)} trials that are left", host=block.host)


def _attempt(
    bench: Bench, block: Block, launcher: "Launcher", left: list[Trial]
) -> Generator[RunEvent, None, LoadFailure | None]:
    """Launch once and measure what is left; returns what stopped it, if anything did."""
    bench.writer.note(BlockBegun(block_id=block.block_id))
    folder = bench.writer.open_block(block.block_id)
    yield BlockStarted(block=block)
    try:
        yield from _launch_and_measure(bench, block, launcher, folder, left)
    except LoadFailed as error:
        failure = LoadFailure(
            pattern=error.pattern,
            cause=error.what,
            hint=error.hint or "",
            evidence=error.evidence or error.log_tail,
        )
    except ServerDied as death:
        evidence = death.failure.evidence or _last_lines(folder / "server.log")
        failure = msgspec.structs.replace(death.failure, evidence=evidence)
    else:
        bench.writer.note_block_files(block.block_id)
        return None
    bench.writer.note_block_files(block.block_id)
    bench.writer.note(
        BlockLost(
            block_id=block.block_id,
            pattern=failure.pattern,
            cause=failure.cause,
            hint=failure.hint,
            evidence=failure.evidence,
        )
    )
    yield BlockFailed(block=block, failure=failure, log_path=str(folder / "server.log"))
    return failure


def _last_lines(log: Path) -> tuple[str, ...]:
    """Give what a server said last; nothing where it has said nothing."""
    if not log.exists():
        return ()
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return tuple(file.read().decode(errors="replace").splitlines()[-TAIL_LINES:])


def _launch_and_measure(
    bench: Bench, block: Block, launcher: "Launcher", folder: Path, left: list[Trial]
) -> Generator[RunEvent, None, None]:
    """Measure `left`, taking out each trial that was sealed."""
    clock = time.monotonic()
    with launcher.running(block.spec, folder) as service:
        for progress in service.until_ready():
            yield BlockLoading(block=block, progress=progress)
            if bench.stopped():
                return
        load_s = time.monotonic() - clock
        bench.writer.write_block_facts(block.block_id, _facts(block, service, load_s))
        bench.writer.describe_host(block.host, service.facts.host_facts)
        bench.writer.note(BlockUp(block_id=block.block_id, load_s=load_s))
        yield BlockReady(block=block, load_s=load_s, flags=service.facts.flags)
        for notice in service.facts.notices:
            yield Notice(text=notice, host=block.host)
        for trial in tuple(left):
            if bench.stopped():
                return
            measuring = measure if trial.kind == "timed" else verify_trial
            for event in measuring(bench, block, trial, service):
                if isinstance(event, TrialFinished):
                    left.remove(trial)
                yield event
        if block.block_id == bench.kept_block and not bench.stopped():
            service.keep()
        ending = time.monotonic()
    if service.kept:
        yield ServiceKept(host=block.host, url=bench.host.url)
    elif LAUNCHER_TRAITS[bench.host.launcher].starts:
        _note_stop(bench, block, time.monotonic() - ending)


def _note_stop(bench: Bench, block: Block, seconds: float) -> None:
    """Record how long the server took to end, until its port and its memory were free.

    Past its bound a launcher kills what has not ended by itself.
    """
    bound_s = bench.host.stop_timeout_s
    bench.writer.note(BlockEnded(block_id=block.block_id, seconds=seconds, bound_s=bound_s))


def _facts(block: Block, service: "Service", load_s: float) -> BlockFacts:
    """Gather what the confound guard compares: everything known about this launch."""
    known = msgspec.structs.asdict(msgspec.structs.replace(service.facts, load_s=load_s))
    return BlockFacts(
        **known,
        block_id=block.block_id,
        host=block.host,
        launch=block.launch,
        spec=block.spec,
        phase_times=dict(service.phase_times),
        environment=dict(block.spec.env),
        client=client_facts(),
    )


def _give_up(
    bench: Bench, block: Block, left: list[Trial], failure: LoadFailure
) -> Generator[RunEvent, None, None]:
    """Record that trials could not be measured, and why; the next run tries them again."""
    for trial in left:
        bench.writer.draft(trial.trial_id)
        now = utc_now()
        bench.writer.seal(
            SealedTrial(
                trial=trial,
                status="failed",
                reason=failure.cause,
                started_at=now,
                ended_at=now,
                server=server_identity(block),
            )
        )
        yield TrialFinished(trial=trial, status="failed", reason=failure.cause)
