"""`specbench record`: a reference of a plain server, or outputs of a speculative one."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def record(
    url: Annotated[str, typer.Option(help="A running server.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Requests in flight.")] = 16,
    budget: Annotated[
        Literal["quick", "default", "deep"], typer.Option(help="How much is recorded.")
    ] = "default",
    api_key_env: Annotated[
        str | None, typer.Option(help="Variable that holds the server's API key.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="Authorities to trust over https, instead of the system's.")
    ] = None,
) -> None:
    """Record a plain server once; `verify --reference` then knows its target and its noise.

    Of a speculative server the outputs are recorded, for a plain server of the same target to score
    later: `specbench verify --url PLAIN --reference FILE` then gives the speculative one's verdict.

    Example: specbench record --url http://127.0.0.1:30000 -o reference.jsonl
    """
    from specbench.cli.authorities import trust
    from specbench.cli.show.verify import show_reference
    from specbench.verify.options import VerifyOptions
    from specbench.workflows.verify_target import record_server

    trust(ca_file)
    options = VerifyOptions(concurrency=concurrency, budget=budget, api_key_env=api_key_env)
    show_reference(record_server(url, output, options), output)
