"""The present state of a run for other processes: not durable, but never believed when damaged."""

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from specbench.model.json_text import NOT_JSON
from specbench.recording.damage import CHANGED, Damage
from specbench.recording.durable import write_private
from specbench.recording.paths import RecordingPaths

_encode = msgspec.json.Encoder(order="deterministic").encode


def sealed_state(state: dict[str, Any]) -> bytes:
    """Encode a state with a hash over itself."""
    return _encode(state | {"sha256": _hash(state)})


def read_progress(path: Path) -> dict[str, Any] | None:
    """Read a state; empty where none was left, None where it is not as it was written."""
    try:
        state = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, *NOT_JSON):
        return None
    if not isinstance(state, dict):
        return None
    told = state.pop("sha256", None)
    return state if told in (None, _hash(state)) else None


def cut_short(paths: RecordingPaths) -> list[Damage]:
    """Hold the journal against the length that the run last gave it; it only ever grows."""
    state = read_progress(paths.progress)
    if state is None:
        left = "the last state of the run is not shown; nothing else rests on it"
        return [Damage(file=paths.progress.name, what=CHANGED, left=left)]
    known = state.get("journal_bytes")
    size = paths.journal.stat().st_size if paths.journal.exists() else 0
    if not isinstance(known, int) or size >= known:
        return []
    return [
        Damage(
            file=paths.journal.name,
            what=f"lacks at least {known - size} of {known} bytes at its end",
            left="launches that failed, and trials that are gone, may go unsaid",
        )
    ]


def _hash(state: dict[str, Any]) -> str:
    return hashlib.sha256(_encode(state)).hexdigest()[:16]


def replace_progress(paths: RecordingPaths, aside: Path, state: dict[str, Any]) -> None:
    """Leave a state for others; not durable, and never an error."""
    try:
        write_private(aside, sealed_state(state | {"pid": os.getpid()}))
        aside.replace(paths.progress)
    except OSError:
        return  # a full disk is reported by the next journal entry, with a way out
