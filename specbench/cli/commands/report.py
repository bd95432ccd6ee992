"""`specbench report`: findings that can be attached to a pull request."""

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from specbench.cli.commands.run import JsonOption, ResultsOption


def report(
    recording: Annotated[
        list[Path] | None, typer.Argument(help="Recordings; by default the newest one.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write to.")
    ] = None,
    results: ResultsOption = Path("results"),
    json: JsonOption = False,
) -> None:
    """Write findings.html, findings.md and plots; several recordings give a history too.

    Example: specbench report results/demo -o findings
    """
    from specbench.cli.show.consoles import say
    from specbench.cli.show.report import show
    from specbench.workflows.imported import is_imported, report_imported
    from specbench.workflows.report import report as write

    if recording and all(is_imported(folder) for folder in recording):
        path = report_imported(recording, output)
        say(dumps({"schema": 1, "markdown": str(path)}) if json else f"report: {path}")
        return

    show(write(recording or [], results=results, folder=output), as_json=json)
