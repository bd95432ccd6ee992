"""What verdicts rest on beside their own data: noise floors, stored when a user asks for it.

A floor is kept in the results folder and in the recording that it was measured on, so that it goes
where the recording goes. Every comparison of a recording reads the same floors, whoever asks.
"""

import json
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from specbench.analysis.noise_floor import NoiseFloor, launch_floor
from specbench.errors import RecordingError
from specbench.model.json_text import NOT_JSON, why_not
from specbench.stats.components import NOTHING, Part
from specbench.stats.launches import LaunchFloor

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


def floor_of(
    recording: Path, *, hosts: Iterable[str], metric: str, blocks: Collection[str]
) -> LaunchFloor | None:
    """Pool what is stored of these hosts' launch noise for a comparison of `blocks`.

    The source names the recordings that it is from; None where nothing is stored.

    Raises:
        RecordingError: a file of floors is damaged.
    """
    found = _for_launches(
        [*_read(recording.parent / FILE).floors, *_read(recording / FILE).floors],
        set(hosts), metric, recording.name, set(blocks),
    )  # fmt: skip
    distinct = {(one.recording, one.floor.host): one for one in found}
    floor = launch_floor([one.floor for one in distinct.values()])
    if floor is None:
        return None
    names = ", ".join(dict.fromkeys(one.recording for one in distinct.values()))
    return msgspec.structs.replace(floor, source=f"{floor.source}, stored from {names}")


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
    known = _read(results / FILE).floors
    chosen = _for_launches(known, set(hosts), metric, recording, set(blocks))
    return tuple(one.floor for one in chosen)


def _for_launches(
    known: Iterable[Remembered], hosts: set[str], metric: str, recording: str, blocks: set[str]
) -> list[Remembered]:
    """Keep the floors of some hosts that were not measured on these launches themselves."""
    return [
        one
        for one in known
        if one.floor.metric == metric
        and one.floor.host in hosts
        and not (
            one.recording == recording and (blocks & set(one.floor.blocks) or not one.floor.blocks)
        )
    ]


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
            hint="delete the file; `specbench compare ar ar --store` writes it again",
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
