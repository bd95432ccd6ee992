"""`specbench export`: a recording in the formats of other tools."""

from pathlib import Path
from typing import Annotated

import typer

from specbench.cli.commands.run import JsonOption, ResultsOption
from specbench.interchange.exports import FORMATS

*_FIRST, _LAST = FORMATS
_NAMED = f"{', '.join(_FIRST)} or {_LAST}"


def export(
    recording: Annotated[
        Path | None, typer.Argument(help="A recording; by default the newest one.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help=f"One of {_NAMED}.")] = "csv",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path(
        "export"
    ),
    only: Annotated[
        str | None,
        typer.Option(help="Only trials for which this expression holds; all of them in checks."),
    ] = None,
    results: ResultsOption = Path("results"),
    json: JsonOption = False,
) -> None:
    """Write a recording for other tools to read; what was not measured is left out.

    Example: specbench export results/demo --format prometheus -o export
    """
    from specbench.cli.show.consoles import say, say_json
    from specbench.workflows.exported import export as write

    files = [str(path) for path in write(recording or results, format_, output, only)]
    if json:
        say_json({"schema": 1, "format": format_, "files": files})
        return
    for path in files:
        say(path)
