"""`specbench engine`: serve the embedded reference engine, or show one request's rounds."""

import typer

engine = typer.Typer(no_args_is_help=True, help="The embedded reference engine.")


@engine.command(
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    }
)
def serve(ctx: typer.Context) -> None:
    """Serve the engine under SGLang's launch flags; `--help` lists them, `--fault list` the faults.

    Example: specbench engine serve --model-path demo --port 30000 --speculative-algorithm DDTREE
    """
    from specbench.engine.server.startup import start

    start(ctx.args)
