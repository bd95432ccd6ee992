"""`specbench schema`: JSON Schema of the two files that people write."""

import enum
import json
from typing import Annotated

import typer


class Kind(enum.StrEnum):
    """Which file."""

    matrix = "matrix"
    hosts = "hosts"


def schema(kind: Annotated[Kind, typer.Argument(help="matrix or hosts")]) -> None:
    """Print the JSON Schema of matrix or hosts files, for editors.

    Example: specbench schema matrix > matrix.schema.json
    """
    from specbench import config

    schemas = {Kind.matrix: config.matrix_schema, Kind.hosts: config.hosts_schema}
    typer.echo(json.dumps(schemas[kind](), indent=2, ensure_ascii=False))
