"""The findings as one HTML file: self-contained, readable without scripts, everything escaped."""

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from specbench.model.visible import visible
from specbench.report import theme
from specbench.report.document import Chapter, Document
from specbench.report.figures import Picture
from specbench.report.history import draw
from specbench.report.numbers import ABSENT, show
from specbench.report.statements import Statement, Table
from specbench.version import __version__

MAX_LINKS = 8
_CODE = re.compile(r"`([^`]+)`")
_ID = re.compile(r'\b(id="|xlink:href="#|href="#|url\(#)')
_HASH = re.compile(r"[0-9a-f]{12,}")
_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_FIGURE = re.compile(r"[-+]?[\d,.]+(e[-+]\d+)?( ?[×%])?( \(not lossless\))?|\[.*, .*\]")  # noqa: RUF001
_TIGHT = re.compile(r"(?<=\d) (?=%)|(?<=\bn =) |(?<=\bn) (?== )")
FIRST, SHORT = 60, 32
"""Characters of a text that a table keeps on one line, in its first column and in others."""

PX_PER_POINT = 1.25
SHOWN_STATEMENTS = 8
"""Sentences of a section that are shown at once; the others can be opened."""


def render(document: Document) -> str:
    """Render a document as one HTML document.

    Its Content-Security-Policy allows the one inline script by hash and nothing from elsewhere.
    """
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("specbench.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"sentence": sentence, "cell": shown, "clean": clean}
    return environment.get_template("findings.html.j2").render(
        document=document,
        version=__version__,
        style=Markup(_asset("page.css")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=digest,
        anchors={chapter.prefix: anchors(chapter) for chapter in document.chapters},
        links=links,
        anchor=anchor,
        figure=inline_svg,
        breadth=breadth,
        kinds=kinds,
        most=SHOWN_STATEMENTS,
        trend_svg=_trend_svg,
    )


def _asset(name: str) -> str:
    return (resources.files("specbench.report") / "templates" / name).read_text(encoding="utf-8")


def clean(text: Any) -> str:
    """Show control and bidirectional characters as escapes: a log may colour its lines."""
    return visible(text)


def sentence(text: str) -> Markup:
    """Escape a sentence; words between backticks become code, `95 %` and `n =` stay together."""
    kept = _TIGHT.sub("\N{NO-BREAK SPACE}", clean(text))
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(kept))))  # noqa: S704 - escaped


def shown(value: Any) -> str:
    """Write a table cell; what was not measured is a dash."""
    if value is None or value == "":
        return ABSENT
    return clean(show(value)) if isinstance(value, int | float) else clean(value)


def anchor(identifier: str) -> str:
    """Turn an identifier into one that HTML and URLs take as it is."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", identifier)
    if plain == identifier:
        return plain
    return f"{plain[:60]}-{hashlib.sha256(identifier.encode('utf-8', 'replace')).hexdigest()[:8]}"


def anchors(chapter: Chapter) -> frozenset[str]:
    """List what statements of a chapter can point to."""
    keys = {*chapter.cells.keys, *chapter.trials.keys}
    for section in chapter.findings.sections:
        for table in section.tables:
            keys |= set(table.keys)
    return frozenset(keys)


@dataclass(frozen=True, kw_only=True)
class Links:
    """The rows that a statement rests on and the page shows: the first ones, and how many more."""

    first: tuple[tuple[str, str], ...]
    more: int


def links(statement: Statement, known: frozenset[str]) -> Links:
    """Give (anchor, name) of the rows that a statement rests on, as far as the page shows them."""
    found = []
    for row in statement.rows:
        for key in (row, f"block-{row}", f"pair-{row}"):
            if key in known:
                found.append((anchor(key), row[:8] if _HASH.fullmatch(row) else row))
                break
    return Links(first=tuple(found[:MAX_LINKS]), more=max(0, len(found) - MAX_LINKS))


def inline_svg(picture: Picture, prefix: str) -> Markup:
    """Prepare a picture for the page: colours by CSS variables, identifiers of its own.

    Its caption is cut off, for the page writes it below as text.
    """
    name = f"{prefix}{picture.name}-"
    return _inline(picture.light_svg, name, picture.alt, foot=picture.foot)


def breadth(picture: Picture) -> int:
    """Give the width at which a picture's letters have the same size as every other's, in px."""
    box = _BOX.search(picture.light_svg)
    return round(float(box[1]) * PX_PER_POINT) if box else 640


def kinds(table: Table) -> list[str]:
    """Classify the columns of a table for its style: numbers, identifiers, short texts, texts."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.heads)
    return [
        _kind([shown(value) for value in column], SHORT if number else FIRST)
        for number, column in enumerate(columns)
    ]


def _kind(values: list[str], short: int) -> str:
    told = [value for value in values if value != ABSENT]
    if told and all(_FIGURE.fullmatch(value) for value in told):
        return "num"
    if told and all(_HASH.fullmatch(value) for value in told):
        return "id"
    return "short" if max((len(value) for value in told), default=0) <= short else "long"


def _inline(svg: str, prefix: str, alt: str, *, foot: float) -> Markup:
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = _ID.sub(lambda found: f"{found[1]}{prefix}", body)
    body = re.sub(r"(<svg[^>]*?) (?:height|width)=\"[^\"]*\"", r"\1", body, count=1)
    body = re.sub(r"(<svg[^>]*?) (?:height|width)=\"[^\"]*\"", r"\1", body, count=1)
    if box := _BOX.search(body):
        height = float(box[2]) - foot
        body = body.replace(box[0], f'viewBox="0 0 {box[1]} {height:.2f}"', 1)
    head = f'<svg role="img" aria-label="{escape(clean(alt))}"'
    return Markup(theme.variables(body.replace("<svg", head, 1)))  # noqa: S704 - matplotlib escapes


def _trend_svg(trend: Any, number: int) -> Markup:
    with theme.using("light"):
        axes = theme.new_axes()
        draw(trend, axes)
        figure = theme.figure_of(axes)
        alt = f"{trend.label}: tok_s over launches"
        return _inline(theme.svg(figure), f"t{number}-", alt, foot=0)
