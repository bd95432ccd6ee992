"""The memory of a results folder: how noisy its hosts are, from earlier A/A comparisons."""

import json
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from specbench.analysis.noise_floor import NoiseFloor
from specbench.errors import RecordingError
from specbench.model.json_text import NOT_JSON, why_not
from specbench.stats.components import NOTHING, Part

FILE = "noise-floor.json"


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """One noise floor and the recording that it was estimated from."""

    recording: str
    floor: NoiseFloor


class _History(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = 2
    floors: tuple[Remembered, ...] = ()


class _Schema(msgspec.Struct, frozen=True):
    schema: int = 1


class _Floor1(msgspec.Struct, frozen=True, kw_only=True):
    """A floor of schema 1: no intervals, and nothing of requests, prompts and launches' names."""

    host: str
    metric: str
    cells: int
    launches: int
    trials: int
    restart_pct: float | None
    restart_df: int
    trial_pct: float | None
    trial_df: int
    resolvable_pct: float | None


class _Remembered1(msgspec.Struct, frozen=True, kw_only=True):
    recording: str
    floor: _Floor1


class _History1(msgspec.Struct, frozen=True, kw_only=True):
    floors: tuple[_Remembered1, ...] = ()


def recall(
    results: Path, *, hosts: Iterable[str], metric: str, recording: str = "",
    blocks: Collection[str] = (),
) -> tuple[NoiseFloor, ...]:  # fmt: skip
    """Give what is known of these hosts' noise in a metric; nothing where nothing was stored.

    A floor that was measured on `blocks` of `recording` is left out: launches cannot be judged by
    their own scatter twice.

    Raises:
        RecordingError: the file is damaged.
    """
    wanted, mine = set(hosts), set(blocks)
    return tuple(
        one.floor
        for one in _read(results / FILE).floors
        if one.floor.metric == metric
        and one.floor.host in wanted
        and not (
            one.recording == recording and (mine & set(one.floor.blocks) or not one.floor.blocks)
        )
    )


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
        content = path.read_bytes()
        if msgspec.json.decode(content, type=_Schema).schema == 1:
            return _from_schema_1(msgspec.json.decode(content, type=_History1))
        return msgspec.json.decode(content, type=_History)
    except FileNotFoundError:
        return _History()
    except OSError as error:
        raise RecordingError(
            f"the noise floors cannot be read: {error.strerror}", where=str(path)
        ) from error
    except NOT_JSON as error:
        raise RecordingError(
            f"the noise floors are damaged: {why_not(error)}",
            where=str(path),
            hint="delete the file; `specbench compare ar ar` writes it again",
        ) from error


def _from_schema_1(history: _History1) -> _History:
    return _History(
        floors=tuple(
            Remembered(recording=one.recording, floor=_floor(one.floor)) for one in history.floors
        )
    )


def _floor(old: _Floor1) -> NoiseFloor:
    return NoiseFloor(
        host=old.host,
        metric=old.metric,
        cells=old.cells,
        launches=old.launches,
        trials=old.trials,
        launch=Part(pct=old.restart_pct, low_pct=None, high_pct=None, df=old.restart_df),
        trial=Part(pct=old.trial_pct, low_pct=None, high_pct=None, df=old.trial_df),
        request=NOTHING,
        prompt=NOTHING,
        resolvable_pct=old.resolvable_pct,
    )
