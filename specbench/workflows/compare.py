"""Compare two arms of recordings, or one arm with itself for the noise of the host."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from specbench.analysis.arms import Arm, arm, level_rows
from specbench.analysis.compare import Blocks, compare
from specbench.analysis.comparison import Comparison
from specbench.analysis.gate import Answer, Condition, condition
from specbench.analysis.metrics import metric
from specbench.analysis.noise_floor import NoiseFloor, launch_floor, noise_floor
from specbench.analysis.regression import Undecided, regressed, undecided
from specbench.errors import InputError, SpecbenchError
from specbench.expressions.expression import parse
from specbench.recording import Recording
from specbench.report.comparison.answer import in_reading_order
from specbench.report.noise_floors import floor_of, remember
from specbench.report.trial_facts import with_facts
from specbench.stats.launches import CLOCKS, LaunchFloor
from specbench.workflows.recording_open import open_recording

if TYPE_CHECKING:
    import pandas as pd

EXIT_REGRESSION = 1
EXIT_INCONCLUSIVE = 5

BASELINE, CURRENT = "baseline", "current"


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What the user asked for; `recording` and `baseline` are paths, `only` and `fail_if` text.

    `store` keeps the noise floor of an arm against itself: later comparisons rest on it.
    """

    a: str
    b: str
    metric: str = "tok_s"
    results: Path = Path("results")
    recording: Path | None = None
    baseline: Path | None = None
    allow: tuple[str, ...] = ()
    only: str | None = None
    fail_if: str | None = None
    store: bool = False


class Compared(msgspec.Struct, frozen=True, kw_only=True, tag="comparison"):
    """A comparison and what --fail-if made of it.

    `undecided` numbers cells as they are shown; `damage` names files that were left out.
    """

    recording: str
    baseline: str | None
    comparison: Comparison
    fail_if: str | None
    failed: Answer | None
    exit_status: int
    undecided: tuple[Undecided, ...] = ()
    damage: tuple[str, ...] = ()


class NoiseReport(msgspec.Struct, frozen=True, kw_only=True, tag="noise_floor"):
    """An A/A comparison. `stored` is the file in which later comparisons find it, if asked for.

    `damage` names files that were left out.
    """

    recording: str
    arm: str
    metric: str
    floors: tuple[NoiseFloor, ...]
    launch_noise_pct: float
    source: str
    stored: str | None
    exit_status: int
    damage: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables that a comparison reads, of one recording or of two."""

    trials: "pd.DataFrame"
    requests: "pd.DataFrame"
    blocks: Blocks


def compare_arms(options: CompareOptions) -> Compared | NoiseReport:
    """Compare two arms; the same arm twice asks for the noise of the host.

    Raises:
        ConfoundError: more differs than was declared.
        InputError: an arm, metric or condition is wrong; RecordingError: nothing to read.
    """
    asked = condition(options.fail_if) if options.fail_if is not None else None
    metric(options.metric)
    recording = open_recording(options.recording or options.results)
    read = [recording]
    if options.baseline is not None:
        read.insert(0, open_recording(options.baseline))
    try:
        return _answer(options, read, asked)
    except SpecbenchError as error:
        if damage := _damage(*read):  # what is refused may be refused for what is left out
            error.hint = "\n  ".join([*([error.hint] if error.hint else []), *damage])
        raise


def _answer(
    options: CompareOptions, read: list[Recording], asked: Condition | None
) -> Compared | NoiseReport:
    recording = read[-1]
    if options.baseline is None:
        if options.a == options.b:
            return _noise(recording, options)
        tables = read_tables(recording)
        a, b = arm(options.a, tables.trials), arm(options.b, tables.trials)
    else:
        tables, a, b = _two(read[0], recording, options)
    comparison = compare(
        tables.trials,
        tables.requests,
        tables.blocks,
        a,
        b,
        metric=options.metric,
        allow=options.allow,
        where=parse(options.only).holds if options.only else None,
        floor=stored_floor(recording, tables, options.a, options.b, options.metric),
    )
    failed = regressed(comparison, asked) if asked is not None else None
    return Compared(
        recording=str(recording.path),
        baseline=None if options.baseline is None else str(options.baseline),
        comparison=comparison,
        fail_if=options.fail_if,
        failed=failed,
        exit_status=_status(failed),
        undecided=undecided(in_reading_order(comparison), asked)
        if asked is not None and failed == "unknown"
        else (),
        damage=_damage(*read),
    )


def read_tables(recording: Recording) -> Tables:
    """Read a recording's tables; each trial brings what was recorded of its load and client."""
    facts = {sealed.trial.trial_id: _trial_facts(sealed) for sealed in recording.sealed}
    trials = recording.trials
    if trials.empty:
        raise _empty(recording)
    return Tables(
        trials=with_facts(trials, facts),
        requests=recording.requests,
        blocks=recording.blocks,
    )


def _empty(recording: Recording) -> InputError:
    return InputError(
        "the recording holds no timed trial that can be used",
        where=str(recording.path),
        hint="; ".join(_damage(recording)) or None,
    )


def _trial_facts(sealed: Any) -> dict[str, Any]:
    return {"workload": sealed.workload, "sampling": sealed.sampling, "client": sealed.client}


def _two(
    baseline: Recording, current: Recording, options: CompareOptions
) -> tuple[Tables, Arm, Arm]:
    """Put two recordings side by side; equal ids in both stay apart."""
    import pandas as pd  # noqa: PLC0415 - slow to load

    parts = {BASELINE: read_tables(baseline), CURRENT: read_tables(current)}
    marked = {name: _marked(name, part) for name, part in parts.items()}
    factors = list(
        dict.fromkeys(
            column
            for part in marked.values()
            for column in list(part.trials.columns)[: list(part.trials.columns).index("cell_id")]
        )
    )
    trials = pd.concat([part.trials for part in marked.values()], ignore_index=True)
    rest = [column for column in trials.columns if column not in factors]
    tables = Tables(
        trials=trials[[*factors, *rest]],
        requests=pd.concat([part.requests for part in marked.values()], ignore_index=True),
        blocks={name: facts for part in marked.values() for name, facts in part.blocks.items()},
    )
    sides = [
        _of(arm(text, parts[side].trials), side)
        for text, side in ((options.a, BASELINE), (options.b, CURRENT))
    ]
    return tables, sides[0], sides[1]


def _marked(name: str, tables: Tables) -> Tables:
    def prefixed(table: "pd.DataFrame", columns: tuple[str, ...]) -> "pd.DataFrame":
        return table.assign(**{c: f"{name}:" + table[c].astype(str) for c in columns})

    trials = prefixed(tables.trials, ("trial_id", "block_id")).assign(recording=name)
    return Tables(
        trials=trials,
        requests=prefixed(tables.requests, ("trial_id",)),
        blocks={f"{name}:{block}": facts for block, facts in tables.blocks.items()},
    )


def _of(side: Arm, recording: str) -> Arm:
    return Arm(
        name=f"{side.name} ({recording})",
        select=lambda levels: levels.get("recording") == recording and side.select(levels),
        names=side.names,
    )


def stored_floor(
    recording: Recording, tables: Tables, a: str, b: str, metric: str
) -> LaunchFloor | None:
    """Give the stored noise floor that a comparison of two arms rests on; None without one."""
    return floor_of(
        recording.path,
        hosts={str(host) for host in tables.trials["host"].dropna()},
        metric=metric,
        blocks=[block.rsplit(":", maxsplit=1)[-1] for block in _used(a, b, tables.trials)],
    )


def _used(a: str, b: str, trials: "pd.DataFrame") -> set[str]:
    """List the launches that stand on either side."""
    sides = [arm(text, trials) for text in (a, b)]
    rows = level_rows(trials)
    picked = [any(side.select(levels) for side in sides) for levels in rows]
    return set(trials["block_id"][picked].astype(str))


def _noise(recording: Recording, options: CompareOptions) -> NoiseReport:
    trials = recording.trials
    if trials.empty:
        raise _empty(recording)
    side = arm(options.a, trials)
    chosen = trials[[side.select(levels) for levels in level_rows(trials)]]
    floors = noise_floor(chosen, recording.requests, options.metric, options.a)
    told = [floor for floor in floors if floor.launch.df > 0]
    stored = _stored(recording, told) if told and options.store else None
    prior = CLOCKS.with_floor(launch_floor(told))
    return NoiseReport(
        recording=str(recording.path),
        arm=options.a,
        metric=options.metric,
        floors=floors,
        launch_noise_pct=100 * prior.sd,
        source=prior.source,
        stored=None if stored is None else str(stored),
        exit_status=0 if told else EXIT_INCONCLUSIVE,
        damage=_damage(recording),
    )


def _stored(recording: Recording, floors: Sequence[NoiseFloor]) -> Path:
    """Keep floors in the results folder, and in the recording, with which they travel."""
    remember(recording.path, recording.path.name, floors)
    return remember(recording.path.parent, recording.path.name, floors)


def _damage(*recordings: Recording) -> tuple[str, ...]:
    return tuple(f"{each.path.name}/{one}" for each in recordings for one in each.damage)


def _status(failed: Answer | None) -> int:
    match failed:
        case "yes":
            return EXIT_REGRESSION
        case "unknown":
            return EXIT_INCONCLUSIVE
        case _:
            return 0
