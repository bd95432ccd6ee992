"""`specbench status`: a run in progress or finished, from any terminal."""

from pathlib import Path
from typing import Annotated

import typer

from specbench.cli.commands.run import JsonOption, ResultsOption


def status(
    recording: Annotated[
        Path | None, typer.Argument(help="A recording; by default the newest one.")
    ] = None,
    results: ResultsOption = Path("results"),
    clean: Annotated[
        bool,
        typer.Option("--clean", help="Remove what runs left that were killed as they began."),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it ends.")] = False,
    json: JsonOption = False,
) -> None:
    """Show where a run stands: trials, launches, failures, time left, damaged files.

    Example: specbench status --watch
    """
    from specbench.cli.show import run as render
    from specbench.workflows.recording_open import clean as clean_up
    from specbench.workflows.status import follow_status, read_status

    root = recording or results
    if clean:
        render.cleaned(clean_up(root), as_json=json)
    elif watch:
        render.watch(follow_status(root))
    else:
        render.status(read_status(root), as_json=json)
