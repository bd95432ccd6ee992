"""The tidy tables: one row a trial, one row a request. Derived; they can be rebuilt at any time."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd

from specbench.model.columns import BY_NAME, COLUMNS, TRIAL_COLUMNS
from specbench.model.load import RequestRecord
from specbench.model.plan import Trial
from specbench.recording.sealed import SealedTrial

if TYPE_CHECKING:
    from specbench.recording.reader import Recording


def trials_table(recording: "Recording") -> pd.DataFrame:
    """Build the table of timed trials: every factor under its own name, then `model.columns`.

    A missing measurement is NaN (NA in a column of integers), never 0.
    """
    timed = current_trials(recording.sealed)
    factors = list(dict.fromkeys(name for sealed in timed for name in sealed.trial.cell.levels))
    rows = [_trial_row(recording, sealed) for sealed in timed]
    given = dict.fromkeys(name for row in rows for name in row)
    extra = [name for name in given if name not in BY_NAME and name not in factors]
    optional = [c.name for c in COLUMNS if c.optional and c.name in given]
    table = pd.DataFrame(rows, columns=pd.Index([*factors, *TRIAL_COLUMNS, *optional, *extra]))
    for name in factors:
        if _are_integers(row[name] for row in rows if name in row):
            table[name] = table[name].astype("Int64")
    return with_types(table)


def with_types(table: pd.DataFrame) -> pd.DataFrame:
    """Give every column of `model.columns` its type: integers stay integers beside blanks."""
    for column in COLUMNS:
        if column.name not in table.columns or column.dtype == "text":
            continue
        numbers = pd.to_numeric(table[column.name])
        whole = column.dtype == "integer"
        table[column.name] = numbers.astype("Int64") if whole else numbers.astype("float64")
    return table


def _are_integers(levels: Iterable[object]) -> bool:
    """Whether a factor has integers alone, beside blanks; a switch is no integer."""
    return {type(level) for level in levels} - {type(None)} == {int}


def requests_table(recording: "Recording") -> pd.DataFrame:
    """Build the table of requests of all timed trials: RequestRecord's fields and two ids."""
    columns = [field.name for field in msgspec.structs.fields(RequestRecord)]
    rows = list(_request_rows(recording))
    return pd.DataFrame(rows, columns=pd.Index(["trial_id", "cell_id", *columns]))


def current_trials(sealed: Iterable[SealedTrial]) -> list[SealedTrial]:
    """Take the timed trials that stand: of each place in the design, the one begun last.

    A trial that failed and was tried again, or was measured under another definition (flags,
    dataset, engine) before, stays on disk and in the journal, but in no table.
    """
    latest: dict[str, SealedTrial] = {}
    for trial in sorted(sealed, key=lambda each: each.started_at):
        if trial.trial.kind == "timed":
            latest[trial.trial.key or trial.trial.trial_id] = trial
    return sorted(latest.values(), key=lambda each: each.started_at)


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write a table; columns of mixed levels (numbers and words) are stored as text."""
    stored = table.copy()
    for name in stored.columns:
        kinds = {type(value) for value in stored[name] if not _is_missing(value)}
        if str in kinds and len(kinds) > 1:
            stored[name] = stored[name].map(_as_text)
    stored.to_parquet(path, index=False)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _as_text(value: object) -> str | None:
    return None if _is_missing(value) else str(value)


def _trial_row(recording: "Recording", sealed: SealedTrial) -> dict[str, Any]:
    trial = sealed.trial
    row = dict(recording.row_of(sealed))
    withheld = row.pop("in_doubt", None) or {}
    told = {"in_doubt": "; ".join(withheld.values())} if withheld else {}
    return {
        **trial.cell.levels,
        **row,
        **told,
        "cell_id": trial.cell.cell_id,
        "trial_id": trial.trial_id,
        "block_id": trial.block_id,
        "host": trial.host,
        "replicate": trial.replicate,
        "launch": trial.launch,
        "order": trial.order,
        "started_at": sealed.started_at,
        "status": sealed.status,
        "reason": sealed.reason,
        "lossless": lossless_of(trial, sealed, recording.verdicts),
        "flags": ",".join(dict.fromkeys((*sealed.flags, *withheld))),
    }


def lossless_of(trial: Trial, sealed: SealedTrial, verdicts: list[dict[str, Any]]) -> str | None:
    """Give the verdict that travels with a trial's speed.

    It is taken from the claims made about the same server (equal launch fingerprint) in the same
    regime (temperature 0, or above): any `violated` wins, then any `inconclusive`. `untested`
    where no claim was made; None for the control, to which the question does not apply.
    """
    if not sealed.server.get("speculative", True):
        return None
    greedy = trial.cell.levels.get("temperature") in (0, 0.0)
    names = {
        claim["verdict"]
        for document in verdicts
        if document.get("launch_fingerprint") == sealed.server.get("fingerprint")
        for claim in document.get("claims", [])
        if (claim.get("temperature") in (0, 0.0)) == greedy and claim.get("temperature") is not None
    }
    for name in ("violated", "inconclusive", "holds"):
        if name in names:
            return name
    return "untested"


def _request_rows(recording: "Recording") -> Iterator[dict[str, Any]]:
    for sealed in current_trials(recording.sealed):
        ids = {"trial_id": sealed.trial.trial_id, "cell_id": sealed.trial.cell.cell_id}
        for record in recording.requests_of(sealed.trial.trial_id):
            yield ids | msgspec.structs.asdict(record)
