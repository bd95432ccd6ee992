"""The tidy tables: one row a trial, one row a request. Derived; they can be rebuilt at any time."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd

from specbench.model.load import RequestRecord
from specbench.model.plan import Trial
from specbench.recording.sealed import SealedTrial

if TYPE_CHECKING:
    from specbench.recording.reader import Recording

TRIAL_COLUMNS = (
    "cell_id", "trial_id", "block_id", "host", "replicate", "order", "started_at", "status",
    "reason", "n_requests", "n_failed", "concurrency_effective", "client_lag_ms_p99", "tok_s",
    "tok_s_window", "tok_s_user", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99",
    "tpot_n", "chunk_gap_ms_p50", "e2e_ms_p50", "e2e_ms_p99", "accept_len",
    "accept_len_request_mean", "accept_len_server", "verify_steps", "step_ms", "tokens_per_chunk",
    "prompt_tokens", "output_tokens", "cached_tokens", "retractions", "gpu_power_w",
    "gpu_temp_c_max", "lossless", "flags",
)  # fmt: skip
"""Columns of contract section 6, in its order, after the factors."""

_TEXT_COLUMNS = frozenset(
    {"cell_id", "trial_id", "block_id", "host", "started_at", "status", "reason", "lossless"}
) | {"flags"}
_COUNT_COLUMNS = ("replicate", "order")


def trials_table(recording: "Recording") -> pd.DataFrame:
    """Build the table of timed trials: every factor under its own name, then TRIAL_COLUMNS.

    A missing measurement is NaN, never 0.
    """
    timed = current_trials(recording.sealed)
    factors = list(dict.fromkeys(name for sealed in timed for name in sealed.trial.cell.levels))
    rows = [_trial_row(recording, sealed) for sealed in timed]
    extra = list(
        dict.fromkeys(
            name
            for row in rows
            for name in row
            if name not in TRIAL_COLUMNS and name not in factors
        )
    )
    table = pd.DataFrame(rows, columns=pd.Index([*factors, *TRIAL_COLUMNS, *extra]))
    for name in TRIAL_COLUMNS:
        if name not in _TEXT_COLUMNS and name not in _COUNT_COLUMNS:
            table[name] = pd.to_numeric(table[name])
    return table


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
    return value is None or (isinstance(value, float) and math.isnan(value))


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
