"""`specbench verify`: is a speculative server lossless."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Target = Annotated[Path | None, typer.Argument(help="A matrix (YAML), or a recording.")]
Url = Annotated[str | None, typer.Option(help="A running server, for example http://host:30000.")]
KeyEnv = Annotated[str | None, typer.Option(help="Variable that holds the server's API key.")]
CaFile = Annotated[
    Path | None, typer.Option(help="Authorities to trust over https, instead of the system's.")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the verdict document here; - is stdout.")
]


def verify(
    target: Target = None,
    url: Url = None,
    reference: Annotated[
        Path | None, typer.Option(help="A reference recording (`specbench record`).")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Requests in flight.")] = 16,
    budget: Annotated[
        Literal["quick", "default", "deep"],
        typer.Option(
            help="At most 13,000 (24,000 without scores), 120,000 or 480,000 generated tokens."
        ),
    ] = "default",
    json: JsonFile = None,
    api_key_env: KeyEnv = None,
    seed: Annotated[int, typer.Option(help="Seed of the analysis' own coins.")] = 0,
    expect_lossy: Annotated[
        bool, typer.Option("--expect-lossy", help="Measure a server that is lossy by its flags.")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Your production's; tested beside the battery's.")
    ] = None,
    top_k: Annotated[int, typer.Option(min=-1, help="Your production's; -1 or 0: none.")] = -1,
    top_p: Annotated[float, typer.Option(min=0.01, max=1.0, help="Your production's.")] = 1.0,
    min_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Your production's.")] = 0.0,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds that a request to --url may take.")
    ] = 120.0,
    ca_file: CaFile = None,
    hosts: Annotated[Path | None, typer.Option("--hosts", help="hosts.yaml of a matrix.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of recordings.")] = Path("results"),
) -> None:
    """Say whether speculative decoding changes what a server emits, at T=0 and at T>0.

    With sampling parameters of your own (--temperature, --top-k, --top-p, --min-p) these get a
    verdict too. A --reference that holds outputs of a speculative server is scored on this one.

    Exit status: 0 holds, 1 violated, 5 inconclusive.

    Example: specbench verify --url http://127.0.0.1:30000 --budget quick
    """
    from specbench.cli.authorities import trust
    from specbench.cli.show.verify import follow, show
    from specbench.verify.options import VerifyOptions, own_filters
    from specbench.workflows.verify_target import verify_target

    trust(ca_file)
    options = VerifyOptions(
        concurrency=concurrency,
        budget=budget,
        reference=reference,
        api_key_env=api_key_env,
        timeout_s=timeout,
        seed=seed,
        expect_lossy=expect_lossy,
        own=own_filters(temperature, top_k, top_p, min_p),
    )
    events = verify_target(target, url, options, hosts=hosts, results=results)
    raise typer.Exit(show(follow(events), json))
