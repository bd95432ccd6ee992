"""What failed in a run, with the diagnosis that was made at the time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specbench.report.inputs import Evidence


@dataclass(frozen=True, kw_only=True)
class BlockFailure:
    """A server that could not be measured; `evidence` are lines of its log, verbatim."""

    block_id: str
    pattern: str
    cause: str
    hint: str
    evidence: tuple[str, ...] = ()
    log_path: str = ""


@dataclass(frozen=True, kw_only=True)
class InvalidCell:
    """A cell that no server can run, with the rule that says so."""

    cell_id: str
    label: str
    reason: str


def block_failures(evidence: Evidence) -> list[BlockFailure]:
    """Read the failed launches from the journal, in order."""
    return [
        _block_failure(entry) for entry in evidence.journal if entry.get("kind") == "block_failed"
    ]


def _block_failure(entry: dict[str, Any]) -> BlockFailure:
    nested = entry.get("failure")
    told = nested if isinstance(nested, dict) else entry
    return BlockFailure(
        block_id=str(entry.get("block_id", "")),
        pattern=str(told.get("pattern", "")),
        cause=str(told.get("cause") or told.get("reason") or "the reason was not recorded"),
        hint=str(told.get("hint") or ""),
        evidence=tuple(str(line) for line in told.get("evidence") or ()),
        log_path=str(entry.get("log_path") or ""),
    )


def invalid_cells(evidence: Evidence) -> Iterator[InvalidCell]:
    """Read the cells that were planned and cannot run, each once."""
    seen: set[str] = set()
    for entry in evidence.journal:
        for cell in entry.get("invalid") or () if entry.get("kind") == "plan" else ():
            if cell.get("cell_id") in seen:
                continue
            seen.add(cell.get("cell_id"))
            levels = {k: v for k, v in (cell.get("levels") or {}).items() if v is not None}
            yield InvalidCell(
                cell_id=str(cell.get("cell_id")),
                label=", ".join(f"{name}={level}" for name, level in levels.items()),
                reason=str(cell.get("invalid") or "the reason was not recorded"),
            )
