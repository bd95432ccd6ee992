"""Reports on hosts, for people and for scripts."""

from collections.abc import Iterator

import msgspec

from specbench.cli.show.consoles import say, say_json
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
        say_json(document, indent=2)
    return 0 if all(report.is_usable for report in done) else HostError.exit_code


def _print(report: HostReport) -> None:
    say(f"{report.host}: {'usable' if report.is_usable else 'not usable'}")
    for check in report.checks:
        say(f"  {_MARKS[check.state]:<6}{check.name:<17}{check.found}")
        if check.hint and check.state != "ok":
            say(f"{'':25}{check.hint}")
