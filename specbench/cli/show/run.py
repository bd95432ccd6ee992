"""Events to a terminal, to a log, or to one JSON document."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specbench.cli.show.consoles import literal, plain, say, say_json
from specbench.cli.show.live import live_display, plain_display
from specbench.cli.show.plan import duration, plan_lines
from specbench.model.columns import BY_NAME, of_cells
from specbench.model.event import RunEvent, RunFinished
from specbench.planning import explain
from specbench.workflows.prepare import Prepared
from specbench.workflows.run_summary import Conclusion, conclude
from specbench.workflows.status import Status

LOG_WIDTH = 200
"""Columns of a table that does not go to a terminal: wide enough not to be cut."""

LEFT = ("algorithm", "flags")
"""Columns of words, which start at the left."""


def follow(events: Iterable[RunEvent], *, as_json: bool) -> RunFinished:
    """Show events as they come, on standard error; returns the last one."""
    console = literal(stderr=True)
    display = live_display if console.is_terminal and not as_json else plain_display
    finished = RunFinished(recording="", measured=0, already_done=0, failed=0, invalid=0)
    with display(console) as show:
        for event in events:
            show(event)
            if isinstance(event, RunFinished):
                finished = event
    return finished


def summary(finished: RunFinished, *, as_json: bool) -> int:
    """Show what was measured, where it is, and the plot; returns the exit status."""
    conclusion = conclude(Path(finished.recording))
    if as_json:
        document = msgspec.to_builtins(conclusion) | msgspec.to_builtins(finished)
        emit_json(document)
        return finished.exit_status
    console = literal()
    if not console.is_terminal:
        console = literal(width=LOG_WIDTH)
    _print_rows(console, conclusion)
    if not finished.measured and not finished.failed and finished.already_done:
        console.print(
            f"nothing to measure: all {finished.already_done} trials are in the recording already"
        )
    else:
        console.print(_counts(finished))
    for path in conclusion.plots:
        console.print(plain(f"plot: {path}"), soft_wrap=True)
    console.print(plain(f"recording: {finished.recording}"), soft_wrap=True)
    for host, url in finished.kept.items():
        kept = f"left running on {host}: {url} (`specbench hosts restore {host}` stops it)"
        console.print(plain(kept), soft_wrap=True)
    return finished.exit_status


def _counts(finished: RunFinished) -> str:
    parts = [f"measured {finished.measured} trials"]
    if finished.already_done:
        parts.append(f"{finished.already_done} were done before")
    if finished.failed:
        parts.append(f"{finished.failed} failed (the same command tries them again)")
    if finished.invalid:
        parts.append(f"{finished.invalid} cells are invalid (`specbench plan` says why)")
    return ", ".join(parts)


def _print_rows(console: Console, conclusion: Conclusion) -> None:
    """Print one row a cell: the factors that vary, then what was measured."""
    if not conclusion.rows:
        return
    rows = conclusion.rows
    shown = [name for name in of_cells() if any(row.get(name) not in (None, []) for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (*conclusion.factors, *shown):
        table.add_column(name, justify="left" if name in LEFT else "right")
    for row in rows:
        cells = [_cell(name, row.get(name)) for name in (*conclusion.factors, *shown)]
        table.add_row(*map(Text, cells))
    console.print(table)


def _cell(name: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case list():
            return " ".join(map(str, value))
        case float() if name == "speedup":
            return f"{value:.2f}x"
        case float() if name in BY_NAME:
            return f"{value:.{BY_NAME[name].digits}f}"
        case _:
            return str(value)


def plan(prepared: Prepared, *, as_json: bool) -> None:
    """Show what would run, in which order, and why."""
    explanation = explain(prepared.plan)
    if as_json:
        emit_json(msgspec.to_builtins(explanation))
        return
    for line in plan_lines(prepared.plan, explanation):
        say(line)


def status(state: Status, *, as_json: bool) -> None:
    """Show where a run stands."""
    if as_json:
        emit_json(msgspec.to_builtins(state))
        return
    say("\n".join(_status_lines(state)))


def cleaned(removed: list[Path], *, as_json: bool) -> None:
    """Show which folders were removed."""
    if as_json:
        emit_json({"removed": [str(root) for root in removed]})
        return
    say("\n".join(f"removed {root}" for root in removed) or "nothing to remove")


def watch(states: Iterator[Status]) -> None:
    """Show where a run stands, again and again until it ends."""
    from rich.live import Live  # only --watch pays for it

    with Live(console=literal(), auto_refresh=False) as live:
        for state in states:
            live.update(plain("\n".join(_status_lines(state))), refresh=True)


def _status_lines(state: Status) -> list[str]:
    live = state.live
    lines = [
        f"{state.name}: {'running' if state.running else 'not running'}",
        f"  {state.ok} trials sealed, {state.failed} failed",
    ]
    if state.running and live:
        lines.append(
            f"  this run: {live.get('measured', 0)} of {live.get('trials', 0)} trials measured,"
            f" launch {live.get('blocks_begun', 0)} of {live.get('blocks', 0)}"
            + (f", about {duration(live['eta_s'])} left" if live.get("eta_s") else "")
        )
        for host, doing in (live.get("hosts") or {}).items():
            lines.append(f"  {host}: {_doing(doing)}")
    for failure in state.failures[-5:]:
        lines.append(f"  failed: {failure.cause}")
        if failure.hint:
            lines.append(f"    {failure.hint}")
    lines += [f"  damaged: {one}" for one in state.damage]
    lines += [f"  note: {one}" for one in state.left_behind]
    return [*lines, f"recording: {state.recording}"]


def _doing(state: dict[str, Any]) -> str:
    text = str(state.get("doing", ""))
    if state.get("fraction") is not None:
        text += f" {state['fraction']:.0%}"
    if state.get("tok_s") is not None:
        text += f", {state['tok_s']:.0f} tok/s"
    if state.get("accept_len") is not None:
        text += f", accept_len {state['accept_len']:.2f}"
    return text


def emit_json(document: Any) -> None:
    """Write one JSON document to standard output; what is missing is null, never NaN."""
    say_json(_without_nan(document))


def _without_nan(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _without_nan(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_without_nan(entry) for entry in value]
        case _:
            return value
