"""The command line's table of contents: every command, one file each."""

import sys

import typer

from specbench.cli.commands.compare import compare
from specbench.cli.commands.engine import engine
from specbench.cli.commands.export import export
from specbench.cli.commands.hosts import hosts
from specbench.cli.commands.import_ import import_
from specbench.cli.commands.isolate import isolate
from specbench.cli.commands.load import load
from specbench.cli.commands.plan import plan
from specbench.cli.commands.record import record
from specbench.cli.commands.report import report
from specbench.cli.commands.run import run
from specbench.cli.commands.schema import schema
from specbench.cli.commands.status import status
from specbench.cli.commands.verify import verify
from specbench.errors import SpecbenchError

app = typer.Typer(
    name="specbench",
    help="The instrument of record for speculative decoding.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
)

app.command()(run)
app.command()(plan)
app.command()(status)
app.command()(verify)
app.command()(record)
app.command()(load)
app.command()(compare)
app.command()(isolate)
app.command()(report)
app.command("import")(import_)
app.command()(export)
app.add_typer(hosts, name="hosts")
app.add_typer(engine, name="engine")
app.command()(schema)


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Measure, verify and compare speculative decoding on real servers."""
    if version:
        from specbench.version import __version__

        typer.echo(f"specbench {__version__}")
        ctx.exit()


def main() -> None:
    """Run a command; turn an error for the reader into one message and its exit status."""
    try:
        app()
    except SpecbenchError as error:
        from specbench.model.visible import visible

        typer.echo(f"error: {visible(error)}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
