"""Renders what was imported, and comparisons of it."""

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from specbench.cli.show.consoles import say, say_json
from specbench.interchange.definitions import DEFINITIONS

if TYPE_CHECKING:
    from specbench.interchange.comparison import ImportedComparison
    from specbench.workflows.imported import Imported


def show_import(imported: "Imported", *, as_json: bool) -> None:
    """Tell how many rows came from which tool, and where they lie; or one JSON document."""
    files = [str(path) for path in imported.files]
    if as_json:
        rows = msgspec.to_builtins(imported.rows)
        say_json({"schema": 1, "rows": rows, "files": files})
        return
    tools = Counter(f"{row.tool} {row.version}".strip() for row in imported.rows)
    for tool, count in tools.items():
        say(f"{tool}: {count} row{'s' if count > 1 else ''}")
    other = {
        f"{figure.column} ({row.tool}): {DEFINITIONS[figure.definition].meaning}"
        for row in imported.rows
        for figure in row.figures
        if figure.column and not DEFINITIONS[figure.definition].ours
    }
    if other:
        say("defined otherwise than specbench's column of that name:")
        for line in sorted(other):
            say(f"  {line}")
    for path in files:
        say(path)


def show_comparison(compared: "ImportedComparison", *, as_json: bool) -> int:
    """Tell the ratio in each group of equal settings; returns the exit status."""
    if as_json:
        say_json(compared)
        return 0
    say(f"{compared.metric}: {compared.b} / {compared.a}, by settings")
    for one in compared.matched:
        settings = ", ".join(f"{name}={value}" for name, value in one.settings.items()) or "all"
        error = (
            "one row on a side: no interval"
            if one.low is None or one.high is None
            else f"95 % interval {one.low:.3f} to {one.high:.3f}"
        )
        say(f"  {settings}: {one.a:.4g} → {one.b:.4g}, ratio {one.ratio:.3f}; {error}")
    for line in compared.provisos:
        say(f"note: {line}")
    return 0
