"""Reports on hosts, for people and for scripts."""

from collections.abc import Iterator

import msgspec
import typer

from specbench.errors import HostError
from specbench.workflows.hosts import HostReport

_MARKS = {"ok": "ok", "warning": "warn", "wrong": "WRONG", "unknown": "?"}


def show(reports: Iterator[HostReport], *, as_json: bool) -> int:
    """Print reports as they come, or one JSON document; return the exit status."""
    done = []
    for report in reports:
        done.append(report)
        if not as_json:
            _print(report)
    if as_json:
        document = {"hosts": [msgspec.to_builtins(r) | {"usable": r.is_usable} for r in done]}
        typer.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
    return 0 if all(report.is_usable for report in done) else HostError.exit_code


def _print(report: HostReport) -> None:
    typer.echo(f"{report.host}: {'usable' if report.is_usable else 'not usable'}")
    for check in report.checks:
        typer.echo(f"  {_MARKS[check.state]:<6}{check.name:<17}{check.found}")
        if check.hint and check.state != "ok":
            typer.echo(f"{'':25}{check.hint}")
