"""What failed in a run, with the diagnosis that was made at the time."""

from collections.abc import Iterator
from dataclasses import dataclass

from specbench.recording.entries import Planned
from specbench.report.inputs import Evidence
from specbench.report.statements import Section, Statement, count

NOT_RECORDED = "the reason was not recorded"


@dataclass(frozen=True, kw_only=True)
class InvalidCell:
    """A cell that no server can run, with the rule that says so."""

    cell_id: str
    label: str
    reason: str


def section(evidence: Evidence) -> Section:
    """Tell what is damaged and what failed: the diagnosis, the log's last lines, what to do."""
    statements = [
        *(
            Statement(kind="failure", text=f"Damaged: {sentence(str(one))}")
            for one in evidence.damage
        ),
        *(
            Statement(
                kind="failure",
                text=f"The launch of block {one.block_id} failed:"
                f" {sentence(one.cause or NOT_RECORDED)}"
                + (f" What to do: {sentence(one.hint)}" if one.hint else ""),
                rows=(one.block_id,),
                details=one.evidence,
            )
            for one in evidence.failed_blocks
        ),
        *_failed_trials(evidence),
        *_failed_requests(evidence),
        *(
            Statement(
                kind="fact",
                text=f"Cell {cell.label} was not run, because no server can run it: {cell.reason}.",
                rows=(cell.cell_id,),
            )
            for cell in invalid_cells(evidence)
        ),
    ]
    return Section(anchor="failures", title="What failed", statements=tuple(statements))


def sentence(text: str) -> str:
    """End a sentence that does not end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _failed_trials(evidence: Evidence) -> Iterator[Statement]:
    trials = evidence.trials
    failed = trials[trials["status"] != "ok"]
    for reason in dict.fromkeys(str(value) for value in failed["reason"]):
        mine = failed[failed["reason"].astype(str) == reason]
        yield Statement(
            kind="failure",
            text=f"{count(len(mine), 'trial')} of {len(trials)} failed:"
            f" {sentence(reason if reason not in {'', 'nan', 'None'} else 'no reason recorded')}",
            rows=tuple(str(value) for value in mine["trial_id"]),
        )


def _failed_requests(evidence: Evidence) -> Iterator[Statement]:
    requests = evidence.requests
    if requests.empty:
        return
    bad = requests[(requests["phase"] == "measured") & (requests["status"] != "ok")]
    for reason in dict.fromkeys(str(value) for value in bad["reason"]):
        rows = bad[bad["reason"] == reason]
        trials = sorted({str(value) for value in rows["trial_id"]})
        yield Statement(
            kind="failure",
            text=f"{count(len(rows), 'measured request')} failed with"
            f" `{reason or 'no reason'}` on {count(len(trials), 'trial')}.",
            rows=tuple(trials),
        )


def invalid_cells(evidence: Evidence) -> Iterator[InvalidCell]:
    """Read the cells that were planned and cannot run, each once."""
    planned = [entry for entry in evidence.journal if isinstance(entry, Planned)]
    cells = {cell.cell_id: cell for entry in reversed(planned) for cell in entry.invalid}
    for cell in cells.values():
        levels = {name: level for name, level in cell.levels.items() if level is not None}
        yield InvalidCell(
            cell_id=cell.cell_id,
            label=", ".join(f"{name}={level}" for name, level in levels.items()),
            reason=cell.invalid or NOT_RECORDED,
        )
