"""Writes a report's files: findings.html, findings.md, and the plots."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specbench.errors import RecordingError
from specbench.report import html, markdown
from specbench.report.dossier import Dossier, assemble
from specbench.report.evidence import Source, evidence_of


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """What was written, and the report itself."""

    folder: Path
    html: Path
    markdown: Path
    plots: tuple[Path, ...]
    dossier: Dossier


def write_report(sources: Sequence[Source], folder: Path) -> ReportFiles:
    """Write the report of one or more recordings into a folder, each file as a whole.

    Raises RecordingError when a recording is damaged or the folder cannot be written.
    """
    dossier = assemble([evidence_of(source) for source in sources])
    files = {
        "findings.html": html.render(dossier).encode("utf-8", "replace"),
        "findings.md": markdown.render(dossier).encode("utf-8", "replace"),
    }
    plots = folder / "plots"
    try:
        plots.mkdir(parents=True, exist_ok=True)
        for chapter in dossier.chapters:
            for picture in chapter.pictures.values():
                picture.write(plots, chapter.prefix)
        for name, content in files.items():
            _replace(folder / name, content)
    except OSError as error:
        raise RecordingError(
            f"cannot write the report: {error.strerror or error}",
            where=str(error.filename or folder),
            hint="give another folder with -o",
        ) from error
    return ReportFiles(
        folder=folder,
        html=folder / "findings.html",
        markdown=folder / "findings.md",
        plots=tuple(sorted(plots.glob("*.svg"))),
        dossier=dossier,
    )


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
