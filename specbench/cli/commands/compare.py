"""`specbench compare`: faster or not, by how much, how surely, where, and why."""

from pathlib import Path
from typing import Annotated

import typer

Arm = Annotated[str, typer.Argument(metavar="ARM", help="An algorithm, or an expression.")]


def compare(
    a: Arm,
    b: Arm,
    metric: Annotated[str, typer.Option(help="Column to compare.")] = "tok_s",
    results: Annotated[Path, typer.Option(help="Folder of recordings.")] = Path("results"),
    recording: Annotated[
        Path | None, typer.Option(help="A recording; the newest under --results by default.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Take the first arm from this recording.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Accept a column that differs; may be repeated.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Compare only cells for which this expression holds.")
    ] = None,
    fail_if: Annotated[
        str | None, typer.Option(help='Exit with 1 if it is met: "speedup < 0.97".')
    ] = None,
    store: Annotated[
        bool, typer.Option(help="Keep an arm's noise: later comparisons rest on it.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="All that was found of every cell.")
    ] = False,
    why: Annotated[
        str | None,
        typer.Option(metavar="CELL", help="Explain a cell: its row's number, or an expression."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a picture: .svg, .png or .pdf.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="The table as CSV, numbers in full.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The answer as Markdown.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Compare the second arm with the first in matched cells, or refuse and name what differs.

    The same arm twice (`compare ar ar`) reports the noise of the host from replicates, and changes
    no verdict unless --store keeps it. Exit status:
    0 done, 1 --fail-if is met, 2 refused, 5 --fail-if cannot be decided.

    Example: specbench compare dflash "algorithm == 'ddtree' and budget == 16"
    """
    from specbench.cli.show.compare import Shown, draw, show
    from specbench.cli.show.imported import show_comparison
    from specbench.workflows.compare import CompareOptions, compare_arms
    from specbench.workflows.imported import compare_imported, is_imported

    options = CompareOptions(
        a=a,
        b=b,
        metric=metric,
        results=results,
        recording=recording,
        baseline=baseline,
        allow=tuple(allow or ()),
        only=only,
        fail_if=fail_if,
        store=store,
    )
    if is_imported(recording or results, baseline):
        raise typer.Exit(show_comparison(compare_imported(options), as_json=json))
    how = Shown(json=json, csv=csv, markdown=markdown, details=details, why=why)
    answer = compare_arms(options)
    if output is not None:
        draw(answer, output)
    raise typer.Exit(show(answer, how))
