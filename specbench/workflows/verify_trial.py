"""A losslessness verdict inside a run: the battery on the running server, sealed like a trial."""

import time
from collections.abc import Generator
from typing import TYPE_CHECKING

import msgspec

from specbench.errors import HostError, InputError
from specbench.model.event import (
    RunEvent,
    TrialFinished,
    TrialStarted,
    VerdictGiven,
    VerifyProgress,
)
from specbench.model.plan import Block, Trial
from specbench.model.service import LoadFailure
from specbench.model.verdict import RecordedVerdict, VerdictDocument
from specbench.recording import SealedTrial, utc_now
from specbench.verify.events import StageFinished, StageStarted, VerdictReady, VerifyEvent
from specbench.verify.options import VerifyOptions
from specbench.workflows.client import client_facts
from specbench.workflows.trial import settled
from specbench.workflows.trial_context import Bench, ServerDied, server_identity

if TYPE_CHECKING:
    from specbench.launchers import Service

LEAST_CONCURRENCY = 16
"""Exactness at concurrency 1 says nothing of a batch: a verdict is always taken at both."""


def verify_trial(
    bench: Bench, block: Block, trial: Trial, service: "Service"
) -> Generator[RunEvent, None, None]:
    """Run the battery on the block's server, keep the verdict, and seal the trial.

    A server that dies meanwhile is a failed trial; ServerDied is then raised.
    """
    yield TrialStarted(trial=trial)
    bench.writer.draft(trial.trial_id)
    started_at, clock = utc_now(), time.monotonic()
    document: VerdictDocument | None = None
    reason, death = "", None
    try:
        for event in bench.lab.verify(service.url, verify_options(bench)):
            if isinstance(event, VerdictReady):
                document = event.document
            elif progress := _progress(trial, event):
                yield progress
            if bench.stopped():
                return
    except (HostError, InputError) as error:
        failure = settled(bench, service, cut_off=False, through_it=True)
        death = failure if isinstance(failure, LoadFailure) else None
        reason = error.what if death or not failure else f"{failure}: {error.what}"
    if document is not None:
        bench.writer.write_verdict(trial.trial_id, _entry(document, block, trial))
        yield VerdictGiven(trial=trial, verdict=document.verdict, reason=_headline(document))
    sealed = SealedTrial(
        trial=trial,
        status="failed" if document is None else "ok",
        reason=f"the server died: {death.cause}" if death else reason,
        started_at=started_at,
        ended_at=utc_now(),
        duration_s=time.monotonic() - clock,
        client=client_facts(),
        server=server_identity(block, service.facts.version),
    )
    bench.writer.seal(sealed)
    yield TrialFinished(trial=trial, status=sealed.status, reason=sealed.reason)
    if death is not None:
        raise ServerDied(death)


def verify_options(bench: Bench) -> VerifyOptions:
    """Take the depth from the matrix, and the largest concurrency that it measures."""
    levels = [n for n in bench.matrix.factors.get("concurrency", ()) if isinstance(n, int)]
    return VerifyOptions(
        budget=bench.matrix.verify or "default",
        concurrency=max(LEAST_CONCURRENCY, *levels, 1),
        api_key_env=bench.host.api_key_env,
        seed=bench.matrix.seed,
    )


def _progress(trial: Trial, event: VerifyEvent) -> VerifyProgress | None:
    match event:
        case StageStarted(stage=stage):
            return VerifyProgress(trial=trial, stage=stage)
        case StageFinished(stage=stage, generated=generated, limit=limit):
            return VerifyProgress(trial=trial, stage=stage, generated=generated, limit=limit)
        case _:
            return None


def _entry(document: VerdictDocument, block: Block, trial: Trial) -> RecordedVerdict:
    """Add to the document which server it is about, so that it can travel with a speed."""
    return RecordedVerdict(
        **msgspec.structs.asdict(document),
        launch_fingerprint=block.spec.fingerprint,
        block_id=block.block_id,
        trial_id=trial.trial_id,
        host=block.host,
        levels=block.spec.levels,
    )


def _headline(document: VerdictDocument) -> str:
    return document.reason or document.verdict
