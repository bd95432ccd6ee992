"""`specbench import`: results of other tools as tidy rows."""

from pathlib import Path
from typing import Annotated

import typer

from specbench.cli.commands.run import JsonOption


def import_(
    files: Annotated[list[Path], typer.Argument(help="Result files or folders of other tools.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write the rows to.")
    ] = Path("imported"),
    json: JsonOption = False,
) -> None:
    """Read results of SGLang, vLLM, AIPerf, guidellm, genai-bench, inference-perf and others.

    Each figure keeps its own name and says whether it is defined as specbench's column is.
    `specbench compare --recording imported` and `specbench report imported` read the rows.

    Example: specbench import bench.jsonl profile_export_aiperf.json -o imported
    """
    from specbench.cli.show.imported import show_import
    from specbench.workflows.imported import import_files

    show_import(import_files(files, output), as_json=json)
