"""`verify MATRIX`: launch every speculative server of a matrix once, and verify it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from specbench.errors import HostError, ServiceError, SpecbenchError
from specbench.model.event import (
    BlockFailed,
    BlockReady,
    BlockStarted,
    HostFailed,
    RunEvent,
    RunStarted,
    VerifyProgress,
)
from specbench.verify.events import StageFinished, VerdictReady, VerifyEvent, VerifyNotice
from specbench.verify.options import VerifyOptions
from specbench.workflows.lab import real_lab
from specbench.workflows.prepare import RunOptions
from specbench.workflows.recording_open import open_recording
from specbench.workflows.run import run_matrix


def verify_matrix(
    matrix: Path, options: VerifyOptions, *, hosts: Path | None, results: Path
) -> Iterator[VerifyEvent]:
    """Verify what no recording of this matrix holds a verdict for; yield all its verdicts.

    Raises InputError for wrong files, HostError when a host cannot be used, ServiceError when a
    server could not be verified.
    """
    asked = RunOptions(matrix=matrix, hosts=hosts, results=results, verdicts_only=options.budget)
    planned: set[str] = set()
    recording = ""
    trouble: list[SpecbenchError] = []
    with closing(run_matrix(asked, real_lab())) as events:
        for event in events:
            if isinstance(event, RunStarted):
                recording = event.recording
                planned = {reason.trial_id for reason in event.plan.reasons}
            if notice := _notice(event):
                yield notice
            if error := _trouble(event):
                trouble.append(error)
    for entry in open_recording(recording).verdicts:
        if entry.trial_id in planned:
            yield VerdictReady(document=entry)
    if trouble:
        raise trouble[0]


def _notice(event: RunEvent) -> VerifyEvent | None:
    """Say a step of the run in the words of a verification."""
    match event:
        case BlockStarted(block=block):
            return VerifyNotice(text=f"{block.host}: launching {block.spec.algorithm}")
        case BlockReady(block=block, load_s=load_s):
            return VerifyNotice(text=f"{block.host}: ready after {load_s:.1f} s")
        case VerifyProgress(stage=stage, generated=generated, limit=limit) if limit:
            return StageFinished(stage=stage, n_tokens=0, generated=generated, limit=limit)
        case _:
            return None


def _trouble(event: RunEvent) -> SpecbenchError | None:
    match event:
        case BlockFailed(failure=failure, log_path=log):
            return ServiceError(failure.cause, where=log, hint=failure.hint)
        case HostFailed(what=what, host=host, hint=hint):
            return HostError(what, where=host, hint=hint)
        case _:
            return None
