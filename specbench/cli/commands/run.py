"""`specbench run`: measure a matrix, or say what would be measured."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

MatrixArgument = Annotated[Path, typer.Argument(help="The matrix, a YAML file.")]
HostsOption = Annotated[
    Path | None, typer.Option("--hosts", help="hosts.yaml; without it, only `local` is known.")
]
ResultsOption = Annotated[Path, typer.Option("--results", help="Folder of recordings.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")
]


def run(
    matrix: MatrixArgument,
    hosts: HostsOption = None,
    results: ResultsOption = Path("results"),
    only: Annotated[
        str | None, typer.Option(help="Measure only the cells for which this expression holds.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start a new recording.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    keep_service: Annotated[
        bool, typer.Option("--keep-service", help="Leave the last server of each host running.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Measure what a matrix asks for and no recording holds yet; the same command resumes.

    Example: specbench run experiments/quickstart.yaml --only "concurrency <= 8"
    """
    from specbench.cli.interrupts import signals_interrupt
    from specbench.cli.show import run as render
    from specbench.workflows.lab import real_lab
    from specbench.workflows.prepare import RunOptions, prepare
    from specbench.workflows.run import run_matrix

    options = RunOptions(
        matrix=matrix, hosts=hosts, results=results, only=only, fresh=fresh,
        keep_service=keep_service,
    )  # fmt: skip
    if dry_run:
        render.plan(prepare(options), as_json=json)
        return
    with signals_interrupt(), closing(run_matrix(options, real_lab())) as events:
        finished = render.follow(events, as_json=json)
    raise typer.Exit(render.summary(finished, as_json=json))
