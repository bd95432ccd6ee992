"""`specbench isolate`: which factors turn a good cell into a bad one."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from specbench.cli.commands.run import HostsOption, JsonOption, MatrixArgument, ResultsOption


def isolate(
    matrix: MatrixArgument,
    good: Annotated[str, typer.Option(help="Expression that names the good server.")],
    bad: Annotated[str, typer.Option(help="Expression that names the bad server.")],
    probe: Annotated[
        str, typer.Option(help='lossless, crash, or what is bad: "accept_len < 3".')
    ] = "lossless",
    command: Annotated[
        str | None,
        typer.Option(help="Your own probe; {url} is the server. Exit: 0 good, 125 unknown."),
    ] = None,
    hosts: HostsOption = None,
    results: ResultsOption = Path("results"),
    launch_minutes: Annotated[
        float | None, typer.Option(min=0.001, help="Cost of a launch, if no recording tells.")
    ] = None,
    probes: Annotated[
        int | None,
        typer.Option(min=1, help="Probes a launch; it passes if all do. 8, fewer where dear."),
    ] = None,
    probe_error: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=0.9, help="How often a bad server passes a probe, if not to be learnt."
        ),
    ] = None,
    second_looks: Annotated[
        int | None,
        typer.Option(
            min=0, help="Launches of the answer's servers to repeat; one if it was quick."
        ),
    ] = None,
    most_launches: Annotated[int, typer.Option(min=1, help="Where an open search ends.")] = 30,
    json: JsonOption = False,
) -> None:
    """Find which factors turn a good server into a bad one, in few launches.

    Every server that the answer speaks of is launched. The same command resumes.
    Exit status: 0 found and confirmed, 5 not decided.

    Example: specbench isolate m.yaml --good "budget == 7" --bad "budget == 32" --probe crash
    """
    from specbench.cli.interrupts import signals_interrupt
    from specbench.cli.show.isolate import follow, show
    from specbench.workflows.isolate_matrix import IsolateOptions, isolate_matrix
    from specbench.workflows.lab import real_lab

    options = IsolateOptions(
        matrix=matrix,
        good=good,
        bad=bad,
        probe=probe,
        command=command,
        hosts=hosts,
        results=results,
        launch_minutes=launch_minutes,
        probes=probes,
        probe_error=probe_error,
        second_looks=second_looks,
        most_launches=most_launches,
    )
    with signals_interrupt(), closing(isolate_matrix(options, real_lab())) as events:
        finding = follow(events)
    raise typer.Exit(show(finding, as_json=json))
