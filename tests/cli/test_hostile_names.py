"""A hostile name is shown escaped by whatever shows it on a terminal."""

import io

import pytest
from rich.table import Table

from specbench.cli.show.consoles import literal, plain, say, say_json

NAME = "m\x1b]0;owned\x07\u202etxt.exe"
SHOWN = r"m\u001b]0;owned\u0007\u202etxt.exe"


def test_a_console_escapes_lines_cells_and_headings() -> None:
    table = Table(title=NAME)
    table.add_column(NAME)
    table.add_row(NAME)
    console = literal(width=200)
    console.file = io.StringIO()

    console.print(NAME)
    console.print(table)
    console.print(plain(NAME))

    assert console.file.getvalue().count(SHOWN) == 5
    assert not set("\x1b\x07\u202e") & set(console.file.getvalue())


def test_plain_lines_and_json_documents_are_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    say(NAME)
    say(NAME, err=True)
    say_json({"name": NAME})

    out, err = capsys.readouterr()
    assert out == f'{SHOWN}\n{{"name":"{SHOWN}"}}\n'
    assert err == f"{SHOWN}\n"
