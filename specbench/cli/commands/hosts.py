"""`specbench hosts`: what is wrong with the machines, and cleaning up after a crash."""

from pathlib import Path
from typing import Annotated

import typer

hosts = typer.Typer(
    help="Look at the hosts of hosts.yaml; put back what a killed run left.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NamesArgument = Annotated[list[str] | None, typer.Argument(help="Hosts; by default all of them.")]
FileOption = Annotated[
    Path | None, typer.Option("--hosts", help="The hosts file; by default hosts.yaml if there.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document, nothing else.")]


@hosts.command()
def check(names: NamesArgument = None, file: FileOption = None, json: JsonOption = False) -> None:
    """Find in seconds what would go wrong later. Nothing is started or changed.

    Example: specbench hosts check --hosts hosts.yaml
    """
    from specbench.cli.show.hosts import show
    from specbench.workflows.hosts import check_hosts

    raise typer.Exit(show(check_hosts(file, names or ()), as_json=json))


@hosts.command()
def restore(
    names: NamesArgument = None,
    file: FileOption = None,
    json: JsonOption = False,
    break_lock: Annotated[
        bool, typer.Option("--break-lock", help="Remove the lock of somebody else, too.")
    ] = False,
) -> None:
    """Stop servers, take off drop-ins and put back files that a killed run left behind.

    Example: specbench hosts restore b300
    """
    from specbench.cli.show.hosts import show
    from specbench.workflows.hosts import restore_hosts

    raise typer.Exit(show(restore_hosts(file, names or (), break_lock=break_lock), as_json=json))
