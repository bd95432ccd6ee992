"""Tables with units: CSV with a list of columns beside it, Parquet with them inside."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specbench.model.columns import BY_NAME

if TYPE_CHECKING:
    import pandas as pd


def units(names: list[str]) -> dict[str, dict[str, Any]]:
    """Give unit, meaning and type of each column; a factor has none of them."""
    return {
        name: {"unit": column.unit, "meaning": column.meaning, "dtype": column.dtype}
        if (column := BY_NAME.get(name))
        else {"factor": True}
        for name in names
    }


def with_units(path: Path, names: list[str]) -> None:
    """Put the units into the fields of a Parquet file: `unit` and `meaning` of each."""
    import pyarrow as pa  # noqa: PLC0415 - slow to load
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    table = pq.read_table(path)
    told = units(names)
    fields = [
        field.with_metadata({k: str(v) for k, v in told.get(field.name, {}).items()})
        for field in table.schema
    ]
    pq.write_table(table.cast(pa.schema(fields, metadata=table.schema.metadata)), path)


def csv(table: "pd.DataFrame", path: Path) -> None:
    """Write the table, and `columns.json` with units beside it."""
    table.to_csv(path, index=False)
    told = units([str(name) for name in table.columns])
    path.with_name("columns.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
