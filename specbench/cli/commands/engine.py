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


@engine.command()
def trace(
    text: str = typer.Argument("The sea is", help="The prompt."),
    flags: str = typer.Option(
        "--speculative-algorithm DDTREE --speculative-ddtree-budget 8",
        help="Launch flags of the engine, as one string.",
    ),
    temperature: float = typer.Option(0.0, min=0.0, help="Sampling temperature; 0 is greedy."),
    max_tokens: int = typer.Option(24, min=1, help="Tokens to emit."),
) -> None:
    """Show one request's rounds: tree, coins, accepted path and bonus token.

    Example: specbench engine trace "The sea is" --temperature 0.8
    """
    from specbench.engine.server.tracing import trace_lines

    for line in trace_lines(text, flags, temperature, max_tokens):
        typer.echo(line)
