"""Writes the JSON Schemas beside the reference pages, as `specbench schema` prints them."""

import json
from pathlib import Path

from specbench import config

REFERENCE = Path(__file__).parent / "reference"


def main() -> None:
    """Write both."""
    for kind, schema in (("matrix", config.matrix_schema()), ("hosts", config.hosts_schema())):
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        (REFERENCE / f"{kind}.schema.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
