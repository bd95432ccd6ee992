"""A textfile for the node exporter's collector: one gauge a column, one sample a trial."""

import re
from collections.abc import Iterator

from specbench.interchange.exports.trials import ExportedTrial, measured_columns


def textfile(trials: list[ExportedTrial]) -> Iterator[str]:
    """Give the lines; the unit stands in the help, factors are labels (`factor_...`)."""
    for column in measured_columns(trials):
        name = f"specbench_{column.name}"
        unit = f" ({column.unit})" if column.unit else ""
        yield f"# HELP {name} {_help(column.meaning)}{unit}"
        yield f"# TYPE {name} gauge"
        for trial in trials:
            if column.name in trial.row:
                yield f"{name}{{{_labels(trial)}}} {float(trial.row[column.name])!r}"


def _labels(trial: ExportedTrial) -> str:
    labels = {
        "recording": trial.recording,
        "trial_id": trial.trial_id,
        "host": trial.row["host"],
        **{_label(f"factor_{name}"): value for name, value in trial.levels.items()},
    }
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())


def _label(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
