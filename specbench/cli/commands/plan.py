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
    launch_minutes: Annotated[
        float | None,
        typer.Option(min=0.0, help="Minutes of a launch, where no recording of the host tells."),
    ] = None,
    tok_s: Annotated[
        float | None,
        typer.Option(
            "--tok-s", min=0.001, help="Tokens a second of one stream, where no recording tells."
        ),
    ] = None,
    model_config: Annotated[
        Path | None,
        typer.Option(help="The model's config.json, where its folder is not on this machine."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what `run` would measure, why and at what cost; nothing is started.

    Example: specbench plan experiments/kimi-ddtree.yaml --launch-minutes 8 --tok-s 100
    """
    from specbench.cli.show import run as render
    from specbench.model.bill import Assumptions
    from specbench.workflows.prepare import RunOptions, prepare

    options = RunOptions(
        matrix=matrix, hosts=hosts, results=results, only=only, only_plan=True,
        said=Assumptions(launch_minutes=launch_minutes, tok_s=tok_s), model_config=model_config,
    )  # fmt: skip
    render.plan(prepare(options), as_json=json)
