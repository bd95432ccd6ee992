"""Reference pages are filled from the code, and every mark of theirs is filled with something."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from specbench.model.columns import COLUMNS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.glob("reference/*.md") if "<!-- generated" in path.read_text())


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_mark_becomes_a_table_of_the_code_s_own_names(page: Path, hook: ModuleType) -> None:
    filled = hook.on_page_markdown(page.read_text(encoding="utf-8"))

    assert "<!-- generated" not in filled
    assert len(re.findall(r"^\| ", filled, re.MULTILINE)) > 5


def test_the_page_of_commands_names_every_command_and_option(hook: ModuleType) -> None:
    import typer  # noqa: PLC0415 - the command line is slow to load

    from specbench.cli.main import app  # noqa: PLC0415 - as above

    text = hook.cli()

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
    assert all(f"## `specbench {name}" in text for name in commands)
    assert all(
        f"`{option}`" in text
        for command in commands.values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-")
    )


def test_every_column_of_the_trials_table_stands_in_the_reference(hook: ModuleType) -> None:
    page = hook.columns()

    assert all(f"| `{column.name}` | " in page for column in COLUMNS)
