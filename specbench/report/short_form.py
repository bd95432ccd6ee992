"""The findings in a form that fits a pull request: the first screen and the grid of arms."""

from collections.abc import Iterator

from specbench.report.document import Chapter, Document
from specbench.report.escaping import escape
from specbench.report.html import shown
from specbench.report.markdown import KINDS
from specbench.report.statements import Section, Table

MOST_LINES = 60
MOST_ROWS = 12
LEFT_OUT = "More is in `findings.md` and `findings.html`."


def render_short(document: Document) -> str:
    """Render at most 60 lines of Markdown; what does not fit is named, not cut in the middle."""
    lines = [f"# {escape(document.title)}: in short", ""]
    for chapter in document.chapters:
        part = list(_chapter(chapter))
        if len(lines) + len(part) > MOST_LINES - 1:
            part = list(_headline(chapter))
        if len(lines) + len(part) > MOST_LINES - 1:
            break
        lines += part
    return "\n".join([*lines, LEFT_OUT]) + "\n"


def _headline(chapter: Chapter) -> Iterator[str]:
    yield escape(chapter.extent)
    yield ""
    for one in chapter.findings.sections[0].statements:
        yield f"- {KINDS[one.kind]}{escape(one.text)}"
    yield ""


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield from _headline(chapter)
    for section in chapter.findings.sections[1:]:
        for table in section.tables[: section.front]:
            yield from _table(table)
    told = [line for section in chapter.findings.sections[1:] for line in _short(section)]
    yield from told
    yield from [""] if told else []


def _short(section: Section) -> Iterator[str]:
    if section.short and not section.front:
        yield f"- {escape(section.title)}: {escape(section.short)}"


def _table(table: Table) -> Iterator[str]:
    yield "| " + " | ".join(escape(head) for head in table.heads) + " |"
    yield "|" + "---|" * len(table.heads)
    for row in table.rows[:MOST_ROWS]:
        yield "| " + " | ".join(escape(shown(value)) for value in row) + " |"
    yield ""
