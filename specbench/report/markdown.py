"""The findings as Markdown, for a pull request: the same sentences, escaped."""

import re
from collections.abc import Iterator

from specbench.report.document import Chapter, Document
from specbench.report.escaping import clean, escape
from specbench.report.html import Links, anchor, anchors, links, shown
from specbench.report.statements import Section, Statement, Table

KINDS = {
    "claim": "",
    "violated": "**Violated.** ",
    "fact": "",
    "withheld": "*Withheld.* ",
    "flag": "**Flag.** ",
    "failure": "**Failed.** ",
}
MAX_ROWS = 200


def render(document: Document) -> str:
    """Render a document as Markdown; pictures are referred to by file name."""
    lines = [f"# {escape(document.title)}: findings", ""]
    if len(document.chapters) > 1:
        lines += ["## History", ""]
        told = [one for trend in document.trends for one in trend.statements()]
        lines += [f"- {KINDS[one.kind]}{escape(one.text)}" for one in told[:100]]
        lines += [] if told else ["No cell was measured in more than one of these recordings."]
        lines.append("")
    for chapter in document.chapters:
        lines += _chapter(chapter, single=len(document.chapters) == 1)
    return "\n".join(lines).rstrip() + "\n"


def _chapter(chapter: Chapter, *, single: bool) -> Iterator[str]:
    level = "##" if single else "###"
    if not single:
        yield f"## {escape(chapter.evidence.name)}"
        yield ""
    for section in chapter.findings.sections:
        yield from _section(section, chapter, level)
    for title, table in (("All cells", chapter.cells), ("All trials", chapter.trials)):
        yield f"{level} {title}"
        yield ""
        yield from _table(table, chapter.prefix)


def _section(section: Section, chapter: Chapter, level: str) -> Iterator[str]:
    yield f"{level} {escape(section.title)}"
    yield ""
    for text in filter(None, (section.short, section.intro)):
        yield escape(text)
        yield ""
    known = anchors(chapter)
    for one in section.statements:
        yield from _statement(one, chapter.prefix, links(one, known))
    if section.statements:
        yield ""
    for name in section.plots:
        if name in chapter.pictures:
            yield from _picture(name, chapter)
    for table in section.tables:
        yield from _table(table, chapter.prefix)


def _statement(one: Statement, prefix: str, targets: Links) -> Iterator[str]:
    rests = ", ".join(f"[{escape(name)}](#{prefix}{target})" for target, name in targets.first)
    also = f" and {targets.more} more" if targets.more else ""
    yield f"- {KINDS[one.kind]}{escape(one.text)}" + (f" ({rests}{also})" if rests else "")
    if one.details:
        content = [clean(line).replace("\n", " ") for line in one.details]
        longest = max((len(run) for line in content for run in re.findall(r"`+", line)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"  {fence}text"
        yield from (f"  {line}" for line in content)
        yield f"  {fence}"


def _picture(name: str, chapter: Chapter) -> Iterator[str]:
    picture = chapter.pictures[name]
    path = f"plots/{chapter.prefix}{name}-light.svg"
    yield f"![{escape(picture.title)}]({path})"
    yield ""
    yield f"*{escape(picture.title)}. {escape(picture.caption)}*"
    yield ""


def _table(table: Table, prefix: str) -> Iterator[str]:
    yield f"*{escape(table.caption)}*"
    yield ""
    yield "| " + " | ".join(escape(head) for head in table.heads) + " |"
    yield "|" + "---|" * len(table.heads)
    for number, row in enumerate(table.rows[:MAX_ROWS]):
        mark = f'<a id="{prefix}{anchor(table.keys[number])}"></a>' if table.keys else ""
        values = [escape(shown(value)) for value in row]
        yield f"| {mark}" + " | ".join(values) + " |"
    yield ""
    if len(table.rows) > MAX_ROWS:
        yield f"{len(table.rows) - MAX_ROWS:,} more rows are in `findings.html` and in `tables/`."
        yield ""
