"""Where text is shown as it is: what servers, files and hosts say is no markup, and no command."""

import sys
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from specbench.model.visible import visible


class _Literal(Console):
    """A console on which every text that is not rich's own is made visible."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Take a text; rich calls this for whatever is printed, cells of tables included."""
        return super().render_str(visible(text), **options)


def literal(*, stderr: bool = False, width: int | None = None) -> Console:
    """Give a console on which `[red]`, `:smile:` and terminal codes in a name stay harmless."""
    return _Literal(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def plain(text: str) -> Text:
    """Give a text that rich leaves as it is, apart from what must be made visible."""
    return Text(visible(text))


def say(text: object = "", *, err: bool = False, end: str = "\n") -> None:
    """Write a line to standard output, or to standard error."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{visible(text)}{end}")
    stream.flush()


def say_json(document: Any, *, indent: int | None = None) -> None:
    """Write one JSON document to standard output."""
    content = msgspec.json.encode(document)
    say((content if indent is None else msgspec.json.format(content, indent=indent)).decode())
