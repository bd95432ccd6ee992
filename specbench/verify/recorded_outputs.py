"""Outputs of a speculative server on file, to be scored later by a plain server of its target.

The stages of the battery are run once, and once more for fresh data, against a scorer that says
nothing: what they ask for and what is answered is recorded. Played back, the same stages ask for
the same and judge it by the scores of another server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from specbench.errors import InputError, ServiceError
from specbench.verify.battery import open_session
from specbench.verify.checksummed import write_checksummed
from specbench.verify.client import Client, Refused
from specbench.verify.concurrency_watch import Load, Watch
from specbench.verify.handshake import Server
from specbench.verify.options import VerifyOptions
from specbench.verify.plan import Samples, stages
from specbench.verify.prompts import Prompts
from specbench.verify.reference import Reference, manifest_of, score_texts
from specbench.verify.session import Live, Session
from specbench.verify.stage import Stage
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.wire import Ask, Completion, Scored

FIRST_TOKENS = "first tokens"
# These choose what they ask by scores, which are not there yet.
_NEEDS_SCORES = ("frozen contexts", "top_k with top_p")
_BY_TEXT = ("chat shapes", "grammars")
_UNLIMITED = 10**9
_PASSES = (0, 1)


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that were sent together in a pass (0: first, 1: fresh) of a stage, and answers."""

    stage: str
    again: int
    rotation: int
    asks: tuple[Ask, ...]
    answers: tuple[tuple[Completion, ...], ...]
    load: Load


def record_outputs(
    client: Client, server: Server, options: VerifyOptions, path: Path
) -> dict[str, Any]:
    """Record what every stage gets to see; return the manifest.

    Raises:
        ServiceError: the server died; what was recorded until then is in the file.

    """
    watch = Watch()
    recorder = _Recorder(Live(client, watch), watch)
    scoring = replace(server, abilities=server.abilities | {"score"})
    session = open_session(
        client, scoring, unlimited(options), answers=recorder.answer, scores=_no_scores, watch=watch
    )
    head = manifest_of(session) | {"outputs": True, "budget": options.budget}
    head["record"] = msgspec.to_builtins(server)
    rows = [head, {"kind": "prompts"} | asdict(session.prompts)]
    death: ServiceError | None = None
    try:
        if "score" in server.abilities:
            rows += score_texts(session)
        recorder.run(session)
    except ServiceError as error:
        death = error
        rows.append({"kind": "cut", "where": recorder.stage, "what": error.what})
    head["tokens"] = sum(len(part.ids) for b in recorder.batches for a in b.answers for part in a)
    write_checksummed(path, [*rows, *(_row(batch) for batch in recorder.batches)])
    if death is not None:
        raise ServiceError(
            f"{death.what} (in {recorder.stage})",
            where=death.where,
            hint=f"what was recorded until then is in {path.name} and can be scored",
        )
    return head


@dataclass(slots=True)
class _Recorder:
    live: Live
    watch: Watch
    stage: str = FIRST_TOKENS
    again: int = 0
    rotation: int = 0
    batches: list[Batch] = field(default_factory=list)

    def run(self, session: Session) -> None:
        session.flush()
        asks = [
            Ask(ids=ids, max_tokens=1, ignore_eos=True)
            for ids in (*session.prompts.chat, *session.prompts.short)
        ]
        session.ask(asks)
        for again in _PASSES:
            for stage in recordable_stages(session, Samples()):
                self.stage, self.again, self.rotation = stage.name, again, session.rotation
                try:
                    (stage.again if again else stage.run)()
                except Refused:
                    # Played back, the stage is said to be missing.
                    continue

    def answer(self, asks: Sequence[Ask], concurrency: int | None) -> list[list[Completion]]:
        answers = self.live(asks, concurrency)
        load = self.watch.loads[-1]
        self.batches.append(
            Batch(
                self.stage,
                self.again,
                self.rotation,
                tuple(asks),
                tuple(tuple(parts) for parts in answers),
                load,
            )
        )
        return answers


@dataclass(slots=True)
class RecordedOutputs:
    """A recording that is played back in a session whose client scores."""

    reference: Reference
    server: Server
    prompts: Prompts
    batches: dict[tuple[str, int], list[Batch]]
    cut: str = ""
    watch: Watch = field(default_factory=Watch)
    _queue: list[Batch] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """How many tokens there are to play back."""
        return int(self.reference.manifest.get("tokens") or 0)

    def first_tokens(self) -> list[tuple[Ask, Completion]]:
        """Return one-token requests: their tokens come from prefill, never from verification."""
        (batch,) = self.batches.get((FIRST_TOKENS, 0), [None])
        if batch is None:
            return []
        return [(ask, parts[0]) for ask, parts in zip(batch.asks, batch.answers, strict=True)]

    def stages(self, session: Session, samples: Samples) -> list[Stage]:
        """Return the stages, each of which plays back its own part."""
        return [self._played(session, stage) for stage in recordable_stages(session, samples)]

    def answer(self, asks: Sequence[Ask], _: int | None) -> list[list[Completion]]:
        """Return the recorded answers of the requests, which must be the recorded ones."""
        if not self._queue:
            raise Refused(0, "the recording holds no more of it")
        batch = self._queue.pop(0)
        if batch.asks != tuple(asks):
            raise InputError(
                f"the recording asked for something else in {batch.stage} than this version does",
                hint="record it again with this version of specbench",
            )
        self.watch.loads.append(batch.load)
        return [list(parts) for parts in batch.answers]

    def _played(self, session: Session, stage: Stage) -> Stage:
        return replace(
            stage,
            run=self._from(session, (stage.name, 0), stage.run),
            again=self._from(session, (stage.name, 1), stage.again),
            more=None,
            cost=0,
        )

    def _from(
        self, session: Session, key: tuple[str, int], run: Callable[[], Evidence | None]
    ) -> Callable[[], Evidence | None]:
        def play() -> Evidence | None:
            self._queue = list(self.batches.get(key, ()))
            if self._queue:
                session.rotation = self._queue[0].rotation
            return run()

        return play


def read_recorded_outputs(reference: Reference) -> RecordedOutputs:
    """Read recorded outputs.

    Raises:
        InputError: the file was written by a version whose records have another form.

    """
    batches: dict[tuple[str, int], list[Batch]] = {}
    prompts, cut = None, ""
    try:
        for row in reference.rows:
            match row["kind"]:
                case "batch":
                    batch = _batch(row)
                    batches.setdefault((batch.stage, batch.again), []).append(batch)
                case "prompts":
                    prompts = msgspec.convert(row, Prompts)
                case "cut":
                    cut = f"the recording was cut short in {row['where']}: {row['what']}"
                case _:
                    pass
        server = msgspec.convert(reference.manifest["record"], Server)
    except (msgspec.ValidationError, KeyError) as error:
        raise InputError(
            f"the recorded outputs have a form that this version does not know: {error}",
            hint="record them again with this version of specbench",
        ) from error
    if prompts is None:
        raise InputError("the recorded outputs hold no prompts", hint="record them again")
    return RecordedOutputs(reference, server, prompts, batches, cut)


def recordable_stages(session: Session, samples: Samples) -> list[Stage]:
    """Return the stages that need no scores to know what to ask for."""
    kept: list[Stage] = []
    left: list[Stage] = []
    for stage in stages(session, samples):
        if stage.name in _BY_TEXT:
            session.seen.not_tested.append(f"{stage.name}: a recording holds no texts")
            continue
        (left if stage.name.startswith(_NEEDS_SCORES) else kept).append(stage)
    session.seen.not_tested += [
        f"{stage.name}: needs scores while it asks, which a recording has not" for stage in left
    ]
    return kept


def unlimited(options: VerifyOptions) -> VerifyOptions:
    """Return the options without a limit: what is asked must not depend on what was spent."""
    return replace(options, sizes=replace(options.plan, limit=_UNLIMITED), own=None)


def _no_scores(jobs: Sequence[tuple[tuple[int, ...], int]], _: int) -> list[Scored]:
    """Answer as if every token were certain: no test can say anything on that."""
    return [
        Scored(
            ids=ids[start:],
            logp=(0.0,) * (len(ids) - start),
            top_ids=tuple((token,) for token in ids[start:]),
            top_logp=((0.0,),) * (len(ids) - start),
        )
        for ids, start in jobs
    ]


def _row(batch: Batch) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "batch"} | msgspec.to_builtins(batch)
    for parts in row["answers"]:
        for part in parts:
            part["logp"] = [None if math.isnan(x) else round(x, 5) for x in part["logp"]]
    return row


def _batch(row: dict[str, Any]) -> Batch:
    for parts in row["answers"]:
        for part in parts:
            part["logp"] = [math.nan if x is None else x for x in part["logp"]]
    return msgspec.convert(row, Batch)
