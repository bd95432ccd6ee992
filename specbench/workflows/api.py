"""The Python API: open a recording, run a matrix, compare two arms."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.model.event import RunEvent, RunFinished
from specbench.recording import Recording
from specbench.workflows.lab import real_lab
from specbench.workflows.prepare import RunOptions
from specbench.workflows.recording_open import open_recording
from specbench.workflows.run import run_matrix

if TYPE_CHECKING:
    from specbench.analysis.comparison import Comparison


def open(path: str | Path = "results") -> Recording:  # noqa: A001 - the API's own word
    """Open a recording, or the newest one under a results folder.

    Raises RecordingError when there is none.
    """
    return open_recording(path)


def run(
    matrix: str | Path,
    *,
    hosts: str | Path | None = None,
    results: str | Path = "results",
    only: str | None = None,
    fresh: bool = False,
    on_event: Callable[[RunEvent], None] | None = None,
) -> Recording:
    """Measure what a matrix asks for and no recording holds yet; returns the recording.

    `on_event` sees every step. Raises InputError before anything is started. Failed cells are
    rows with a reason, not exceptions.
    """
    options = RunOptions(
        matrix=Path(matrix),
        hosts=None if hosts is None else Path(hosts),
        results=Path(results),
        only=only,
        fresh=fresh,
    )
    root = ""
    with closing(run_matrix(options, real_lab())) as events:
        for event in events:
            if isinstance(event, RunFinished):
                root = event.recording
            if on_event is not None:
                on_event(event)
    return open_recording(root)


def compare(
    recording: Recording, a: str, b: str, *, metric: str = "tok_s", allow: Sequence[str] = ()
) -> "Comparison":
    """Compare arm `b` with arm `a` in matched cells; a notebook shows its table and picture.

    The answer is that of `specbench compare`, of the report and of the gate.

    Raises ConfoundError, which names the columns, when anything undeclared differs.
    """
    from specbench.analysis.compare import compare as compare_tables  # noqa: PLC0415 - slow to load
    from specbench.report.notebook import for_notebook  # noqa: PLC0415 - slow to load
    from specbench.workflows.compare import (  # noqa: PLC0415 - slow to load
        read_tables,
        stored_floor,
    )

    tables = read_tables(recording)
    found = compare_tables(
        tables.trials,
        tables.requests,
        tables.blocks,
        a,
        b,
        metric=metric,
        allow=tuple(allow),
        floor=stored_floor(recording, tables, a, b, metric),
    )
    return for_notebook(found)
