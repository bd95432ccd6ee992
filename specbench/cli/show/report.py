"""Renders a written report on the terminal: its headline and its files."""

import json
from typing import TYPE_CHECKING

from specbench.cli.show.consoles import say

if TYPE_CHECKING:
    from specbench.report.writing import ReportFiles


def show(files: "ReportFiles", *, as_json: bool) -> None:
    """Print the headline of each recording and where the report lies; or one JSON document."""
    for chapter in files.document.chapters:
        for one in chapter.evidence.damage:
            say(f"damaged: {chapter.evidence.name}/{one}", err=True)
    if as_json:
        say(json.dumps(_document(files), indent=1))
        return
    for chapter in files.document.chapters:
        say(chapter.evidence.name)
        for statement in chapter.findings.sections[0].statements:
            say(f"  {statement.kind}: {statement.text}")
    say(f"report: {files.html}")
    say(f"        {files.markdown}")
    say(f"        {files.short}  (for a pull request)")


def _document(files: "ReportFiles") -> dict[str, object]:
    return {
        "schema": 1,
        "html": str(files.html),
        "markdown": str(files.markdown),
        "short": str(files.short),
        "plots": [str(path) for path in files.plots],
        "recordings": [
            {
                "name": chapter.evidence.name,
                "sections": [
                    {
                        "section": section.anchor,
                        "statements": [
                            {"kind": one.kind, "text": one.text, "rows": list(one.rows)}
                            for one in section.statements
                        ],
                    }
                    for section in chapter.findings.sections
                ],
            }
            for chapter in files.document.chapters
        ],
    }
