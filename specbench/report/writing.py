"""Writes a report's files: findings.html, findings.md, its short form, and the plots."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from specbench.errors import RecordingError
from specbench.report import html, markdown
from specbench.report.document import Document, assemble
from specbench.report.inputs import Source, evidence_of
from specbench.report.short_form import render_short


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """What was written, and the report itself."""

    folder: Path
    html: Path
    markdown: Path
    short: Path
    plots: tuple[Path, ...]
    document: Document


def write_report(sources: Sequence[Source], folder: Path) -> ReportFiles:
    """Write the report of one or more recordings into a folder, each file as a whole.

    Raises RecordingError when a recording is damaged or the folder cannot be written.
    """
    plots = folder / "plots"
    with _writable(folder):
        plots.mkdir(parents=True, exist_ok=True)  # before the work, so that it is not in vain
    document = assemble([evidence_of(source) for source in sources])
    with _writable(folder):
        for chapter in document.chapters:
            for picture in chapter.pictures.values():
                picture.write(plots, chapter.prefix)
        _replace(folder / "findings.html", html.render(document))
        _replace(folder / "findings.md", markdown.render(document))
        _replace(folder / "findings.short.md", render_short(document))
    return ReportFiles(
        folder=folder,
        html=folder / "findings.html",
        markdown=folder / "findings.md",
        short=folder / "findings.short.md",
        plots=tuple(sorted(plots.glob("*.svg"))),
        document=document,
    )


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"cannot write the report: {error.strerror or error}",
            where=str(error.filename or folder),
            hint="give another folder with -o",
        ) from error


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        aside.write_bytes(text.encode("utf-8", "replace"))
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
