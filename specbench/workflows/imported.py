"""Import results of other tools, and compare or report them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specbench.errors import InputError
from specbench.expressions.expression import parse
from specbench.interchange.comparison import ImportedComparison, compare_rows
from specbench.interchange.importing import import_all
from specbench.interchange.of_recording import rows_of_recording
from specbench.interchange.rows import ImportedRow
from specbench.interchange.store import holds_imported, read_imported, write_imported
from specbench.interchange.told import markdown
from specbench.workflows.compare import CompareOptions
from specbench.workflows.recording_open import open_recording


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import read, and the files that it wrote."""

    rows: tuple[ImportedRow, ...]
    files: tuple[Path, ...]


def import_files(paths: Sequence[Path], folder: Path) -> Imported:
    """Read files of other tools and write their rows to `folder`. Raises InputError."""
    rows = import_all(paths)
    return Imported(rows=tuple(rows), files=tuple(write_imported(rows, folder)))


def is_imported(*folders: Path | None) -> bool:
    """Whether one of the folders holds imported rows."""
    return any(folder is not None and holds_imported(folder) for folder in folders)


def compare_imported(options: CompareOptions) -> ImportedComparison:
    """Compare imported rows with each other, or with those of a recording.

    Raises:
        InputError: definitions or arms do not fit; ConfoundError: no settings are equal.
        RecordingError: the other side cannot be read.
    """
    if options.fail_if is not None:
        raise InputError(
            "--fail-if needs recordings of specbench on both sides: imported rows have no requests",
            hint="leave --fail-if out, and read the ratio and its interval from --json",
        )
    current = _rows(options.recording or options.results, options)
    base = current if options.baseline is None else _rows(options.baseline, options)
    return compare_rows(base, current, options.a, options.b, options.metric, options.allow)


def _rows(path: Path, options: CompareOptions) -> list[ImportedRow]:
    rows = read_imported(path) if holds_imported(path) else rows_of_recording(open_recording(path))
    if options.only is None:
        return rows
    holds = parse(options.only).holds
    return [row for row in rows if holds({**row.levels, "source_tool": row.tool})]


def report_imported(folders: Sequence[Path], output: Path | None) -> Path:
    """Write `imported.md` of imported rows, beside them by default. Raises InputError."""
    rows = [row for folder in folders for row in read_imported(folder)]
    path = (output or folders[0]) / "imported.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown(rows), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(path)) from None
    return path
