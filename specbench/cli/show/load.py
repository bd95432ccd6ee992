"""The levels of `specbench load` on a terminal, or as one JSON document."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from specbench.analysis.failures import told
from specbench.cli.show.consoles import literal, say_json
from specbench.errors import InputError, Interrupted
from specbench.loadgen.slo_search import highest_met
from specbench.model.columns import shown_in
from specbench.model.load import DriveProgress
from specbench.workflows.load import LevelFinished, LevelStarted, LoadEvent, ServerSeen
from specbench.workflows.self_test import Limit

LOG_WIDTH = 200
QUIET_S = 10.0
"""Of silence, after which a line says that something is still waited for."""
INTERRUPTED = Interrupted.exit_code


def levels(text: str) -> tuple[int, ...]:
    """Read `1,8,64`. Raises InputError."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise InputError(
            f"not a list of concurrencies: {text!r}", hint="for example --concurrency 1,8,64"
        )
    return found


def show(events: Iterable[LoadEvent], *, as_json: bool) -> int:
    """Follow a measurement and show what came out; returns the exit status."""
    progress = literal(stderr=True)
    glance = _Glance(progress)
    server: ServerSeen | None = None
    done: list[LevelFinished] = []
    for event in events:
        match event:
            case ServerSeen():
                server = event
                version = f" {event.version}" if event.version else ""
                algorithm = event.algorithm or "no speculation named"
                progress.print(f"{event.engine}{version}, {event.model}, {algorithm}")
            case LevelStarted():
                progress.print(f"{event.name} ...")
            case DriveProgress():
                glance.show(event)
            case LevelFinished():
                done.append(event)
    if as_json:
        _json({"schema": 1, "server": server, "levels": done})
    else:
        _table(sorted(done, key=lambda level: level.concurrency or 0))
    if any("interrupted" in level.flags for level in done):
        return INTERRUPTED
    return 3 if any(level.columns["n_failed"] or level.gave_up for level in done) else 0


def show_limits(limits: Iterable[Limit], *, as_json: bool) -> int:
    """Show what this machine can measure, and how well."""
    progress = literal(stderr=True)
    done = []
    for limit in limits:
        progress.print(f"{limit.streams} streams ...")
        done.append(limit)
    if as_json:
        _json({"schema": 1, "limits": done})
        return 0
    table = Table(box=None, header_style="bold")
    for heading in ("streams", "events/s", "us/event", "cpu", "ttft error p99", "gap error p99"):
        table.add_column(heading, justify="right")
    table.add_column("claimed (ttft, gap)", justify="right")
    table.add_column("flags")
    for each in done:
        claimed = f"{_number(each.claimed_ttft_us)}, {_number(each.claimed_gap_us)} us"
        table.add_row(
            str(each.streams),
            _number(each.events_s),
            _number(each.cpu_us_per_event),
            f"{each.cpu_share:.0%}",
            f"{_number(each.ttft_error_us_p99)} us",
            f"{_number(each.gap_error_us_p99)} us",
            claimed,
            " ".join(each.flags),
        )
    _output().print(table)
    return 0


def _output() -> Console:
    """Give standard output: as wide as the terminal, or wide enough for every column."""
    console = literal()
    return console if console.is_terminal else literal(width=LOG_WIDTH)


class _Glance:
    """Shows that a drive goes on: a line in place on a terminal, elsewhere one each 10 s."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said_s = 0.0

    def show(self, event: DriveProgress) -> None:
        """Show where the drive stands."""
        silent = f", nothing came for {event.silent_s:.0f} s" if event.silent_s >= QUIET_S else ""
        text = (
            f"  {event.elapsed_s:.0f} s: {event.in_flight} in flight, {event.finished} done,"
            f" {event.failed} failed{silent}"
        )
        if self._console.is_terminal:
            self._console.print(text, end="\r")
            return
        self._said_s = min(self._said_s, event.elapsed_s)  # a new level counts from its own start
        if event.elapsed_s - self._said_s >= QUIET_S:
            self._said_s = event.elapsed_s
            self._console.print(text)


def _table(done: list[LevelFinished]) -> None:
    console = _output()
    table = Table(box=None, header_style="bold")
    table.add_column("level")
    columns = shown_in("load")
    for column in columns:
        table.add_column(column.heading, justify="right")
    table.add_column("flags")
    for level in done:
        figures = [_number(level.columns[column.name]) for column in columns]
        table.add_row(level.name, *figures, " ".join(level.flags))
    console.print(table)
    if (verdict := _within_levels(done)) is not None:
        console.print(verdict)
    for level in done:
        if (goodput := level.columns["goodput_rps"]) is not None:
            console.print(f"{level.name}: {_number(goodput)} requests/s meet the service levels")
        if level.failures:
            console.print(f"{level.name}: failed: {told(level.failures)}")
        if level.gave_up:
            console.print(f"{level.name}: ended early: {level.gave_up}")
        if lacking := _lacking(level):
            console.print(f"{level.name}: {lacking}")
        for reason in (level.columns.get("in_doubt") or {}).values():
            console.print(f"{level.name}: withheld: {reason}")
        found = level.accuracy
        console.print(
            f"{level.name}: TTFT is right within {_number(found.ttft_error_us)} us, chunk gaps"
            f" within {_number(found.gap_error_us)} us, in 99 of 100 ({found.stamp} stamps)"
        )


def _lacking(level: LevelFinished) -> str:
    """Say why figures of tokens are empty where replies came; empty where none is."""
    columns = level.columns
    if columns["n_requests"] == columns["n_failed"] or "counts_in_doubt" in (
        columns.get("in_doubt") or {}
    ):
        return ""
    if columns["output_tokens"] is None:
        return "no figures of tokens: the server does not count them (no usage in its replies)"
    if columns["tpot_n"] == 0:
        return "no TPOT: tokens are counted at the end of a reply only, or it came in one stamp"
    return ""


def _within_levels(done: list[LevelFinished]) -> str | None:
    """Say up to which concurrency the service levels are met, and what is missed above it."""
    judged = {
        one.concurrency: one.slo_missed
        for one in done
        if one.concurrency is not None and one.slo_missed is not None
    }
    if not judged:
        return None
    best = highest_met({slots: not missed for slots, missed in judged.items()})
    above = min((slots for slots, missed in judged.items() if missed), default=None)
    said = f"met up to concurrency {best}" if best else "not met at any concurrency measured"
    if above is None:
        return f"service levels: {said}, the highest measured"
    return f"service levels: {said}; at {above}: {', '.join(judged[above])}"


def _number(value: float | None) -> str:
    """Write a figure with three digits; what was not measured stays empty."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _json(document: dict[str, Any]) -> None:
    say_json(document)
