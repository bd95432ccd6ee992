"""What a verification tells while it runs; the last event carries the verdict."""

from __future__ import annotations

import msgspec

from specbench.model.verdict import VerdictDocument


class StageStarted(msgspec.Struct, frozen=True, kw_only=True, tag="stage_started"):
    """A stage of the battery begins."""

    stage: str


class StageFinished(msgspec.Struct, frozen=True, kw_only=True, tag="stage_finished"):
    """A stage ended; `generated` tokens have been asked for so far, of at most `limit`."""

    stage: str
    n_tokens: int
    generated: int
    limit: int
    note: str = ""


class VerifyNotice(msgspec.Struct, frozen=True, kw_only=True, tag="verify_notice"):
    """Something that the reader should know."""

    text: str


class VerdictReady(msgspec.Struct, frozen=True, kw_only=True, tag="verdict_ready"):
    """The end."""

    document: VerdictDocument


VerifyEvent = StageStarted | StageFinished | VerifyNotice | VerdictReady
