"""`specbench load`: one quick measurement of a running server."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Url = Annotated[str, typer.Option(help="The server, for example http://127.0.0.1:30000.")]
Levels = Annotated[str, typer.Option(help="Requests in flight, a level each: 1,8,64.")]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Open loop: requests a second.")]
Requests = Annotated[int | None, typer.Option(min=1, help="Measured requests of each level.")]
KeyEnv = Annotated[str | None, typer.Option(help="Variable that holds the server's API key.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds that a request may take.")]
StallTimeout = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        help="Seconds of silence inside a reply, or of the whole server, after which it is given"
        " up; 50 for the whole server by default.",
    ),
]
CaFile = Annotated[
    Path | None, typer.Option(help="Authorities to trust over https, instead of the system's.")
]
Keep = Annotated[Path | None, typer.Option("--keep", help="Keep the request rows in this folder.")]


def load(
    url: Url = "",
    concurrency: Levels = "1,8,64",
    rate: Rate = None,
    requests: Requests = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Measure this machine's own limit and error.")
    ] = False,
    saturate: Annotated[
        bool,
        typer.Option("--saturate", help="Look for the level at which throughput stops growing."),
    ] = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each answer at most.")] = 256,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    api: Annotated[Literal["chat", "generate", "completions"], typer.Option()] = "chat",
    engine: Annotated[
        str | None, typer.Option(help="The server product; recognised by default.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Asked of the server by default.")] = None,
    dataset: Annotated[str, typer.Option(help="builtin:NAME or a JSON-lines file.")] = (
        "builtin:mixed"
    ),
    timeout: Timeout = 600.0,
    stall_timeout: StallTimeout = None,
    api_key_env: KeyEnv = None,
    slo: Annotated[
        str | None,
        typer.Option(help='Count requests that meet this: "ttft <= 500 ms and tpot <= 30 ms".'),
    ] = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search",
            help="Look for the highest concurrency, up to the largest of --concurrency, at which"
            " 90 % of requests meet each level of --slo.",
        ),
    ] = False,
    ca_file: CaFile = None,
    keep: Keep = None,
) -> None:
    """Measure throughput, latency and accept_len of a running server, and how far to trust them.

    Exit status: 0 done, 2 wrong input, 3 requests failed, 4 the server cannot be reached, 130
    interrupted: the level in progress is shown as far as it came.

    Example: specbench load --url http://127.0.0.1:30000 --concurrency 1,8,64
    """
    from specbench.cli.authorities import trust
    from specbench.cli.interrupts import first_interrupt_asks
    from specbench.cli.show.load import levels, show, show_limits
    from specbench.config.service_levels import parse_levels
    from specbench.workflows.load import LoadOptions, measure
    from specbench.workflows.self_test import self_test as measure_self

    if self_test:
        raise typer.Exit(show_limits(measure_self(levels(concurrency)), as_json=json))
    trust(ca_file)
    options = LoadOptions(
        url=url,
        concurrency=levels(concurrency),
        rate=rate,
        requests=requests,
        saturate=saturate,
        max_tokens=max_tokens,
        temperature=temperature,
        api=api,
        engine=engine,
        model=model,
        dataset=dataset,
        api_key_env=api_key_env,
        keep=keep,
        timeout_s=timeout,
        stall_timeout_s=stall_timeout,
        search=search,
        slo=None if slo is None else parse_levels(slo),
    )
    with first_interrupt_asks() as asked:
        raise typer.Exit(show(measure(options, asked), as_json=json))
