"""`specbench plan`: what would run, in which order, why, how many launches, how long."""

from pathlib import Path
from typing import Annotated

import typer

from specbench.cli.commands.run import HostsOption, JsonOption, MatrixArgument, ResultsOption


def plan(
    matrix: MatrixArgument,
    hosts: HostsOption = None,
    results: ResultsOption = Path("results"),
    only: Annotated[
        str | None, typer.Option(help="Plan only the cells for which this expression holds.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what `run` would measure and why; nothing is started.

    Example: specbench plan experiments/quickstart.yaml
    """
    from specbench.cli.show import run as render
    from specbench.workflows.prepare import RunOptions, prepare

    options = RunOptions(matrix=matrix, hosts=hosts, results=results, only=only)
    render.plan(prepare(options), as_json=json)
