"""The memory of a results folder: how noisy its hosts are, from earlier A/A comparisons."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from specbench.analysis.noise_floor import NoiseFloor
from specbench.errors import RecordingError

FILE = "noise-floor.json"


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """One noise floor and the recording that it was estimated from."""

    recording: str
    floor: NoiseFloor


class _History(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = 1
    floors: tuple[Remembered, ...] = ()


def recall(results: Path, *, hosts: Iterable[str], metric: str) -> tuple[NoiseFloor, ...]:
    """Give what is known of these hosts' noise in a metric; nothing where nothing was stored.

    Raises:
        RecordingError: the file is damaged.
    """
    wanted = set(hosts)
    known = [one.floor for one in _read(results / FILE).floors if one.floor.metric == metric]
    return tuple(floor for floor in known if floor.host in wanted)


def remember(results: Path, recording: str, floors: Sequence[NoiseFloor]) -> Path:
    """Store floors, in place of earlier ones of the same recording, host and metric.

    Raises:
        RecordingError: the file is damaged or cannot be written.
    """
    path = results / FILE
    replaced = {(recording, floor.host, floor.metric) for floor in floors}
    kept = [
        one
        for one in _read(path).floors
        if (one.recording, one.floor.host, one.floor.metric) not in replaced
    ]
    new = [Remembered(recording=recording, floor=floor) for floor in floors]
    history = _History(floors=(*kept, *new))
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        draft.write_text(json.dumps(msgspec.to_builtins(history), indent=1) + "\n")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise RecordingError(
            f"the noise floor cannot be stored: {error.strerror}", where=str(path)
        ) from error
    return path


def _read(path: Path) -> _History:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_History)
    except FileNotFoundError:
        return _History()
    except OSError as error:
        raise RecordingError(
            f"the noise floors cannot be read: {error.strerror}", where=str(path)
        ) from error
    except msgspec.MsgspecError as error:
        raise RecordingError(
            f"the noise floors are damaged: {error}",
            where=str(path),
            hint="delete the file; `specbench compare ar ar` writes it again",
        ) from error
