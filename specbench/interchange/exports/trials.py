"""The timed trials of a recording as every export takes them."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from specbench.model.columns import COLUMNS, PERCENTS, Column
from specbench.version import __version__

if TYPE_CHECKING:
    from specbench.recording import Recording


@dataclass(frozen=True, kw_only=True)
class ExportedTrial:
    """One trial: its factors, and the columns that were measured (a blank is not there)."""

    levels: dict[str, Any]
    row: dict[str, Any]
    model: str
    recording: str
    version: str

    def percentiles(self, quantity: str) -> dict[str, Any]:
        """Give the measured percentiles of a latency (`ttft_ms`) as p50, p90, p95 and p99."""
        names = {f"p{percent}": f"{quantity}_p{percent}" for percent in PERCENTS}
        return {short: self.row[name] for short, name in names.items() if name in self.row}

    @property
    def trial_id(self) -> str:
        """Its id in the recording."""
        return str(self.row["trial_id"])


def trials_of(recording: "Recording") -> list[ExportedTrial]:
    """Take the trials that ended well, in order of their start."""
    table = recording.trials
    factors = list(table.columns[: list(table.columns).index("cell_id")])
    model = _model(recording.manifest.matrix)
    return [
        ExportedTrial(
            levels={name: plain(row[name]) for name in factors if not is_blank(row[name])},
            row={
                str(name): plain(value)
                for name, value in row.items()
                if name not in factors and not is_blank(value)
            },
            model=model,
            recording=recording.path.name,
            version=recording.manifest.specbench or __version__,
        )
        for row in table.to_dict("records")
        if row["status"] == "ok"
    ]


def is_blank(value: Any) -> bool:
    """Whether a cell of a table holds no measurement."""
    missing = value is None or type(value).__name__ in ("NAType", "NaTType") or value == ""
    return missing or (isinstance(value, float) and not math.isfinite(value))


def plain(value: Any) -> Any:
    """Turn a number of numpy into Python's."""
    return value.item() if hasattr(value, "item") else value


def measured_columns(trials: list[ExportedTrial]) -> list[Column]:
    """Name the columns of numbers that a trial has something in, the plan's left out."""
    present = {name for trial in trials for name in trial.row}
    return [
        column
        for column in COLUMNS
        if column.name in present and column.dtype != "text" and column.source != "plan"
    ]


def _model(matrix: str) -> str:
    """Give the last two parts of the model's path, so that no path of a cluster leaks."""
    document = yaml.safe_load(matrix) if matrix else None
    model = document.get("model") if isinstance(document, dict) else None
    path = model.get("path") if isinstance(model, dict) else model
    return "/".join(str(path).rstrip("/").split("/")[-2:]) if path else ""
