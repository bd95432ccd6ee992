"""Snippets marked as runnable run, in the order of the page; the notebook tours the same run."""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- run -->\n```(console|python)\n(.*?)```", re.DOTALL)
FOLDERS = ("docs", "experiments", "notebooks")


def _blocks(page: Path) -> Iterator[tuple[str, str]]:
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        yield str(language), str(body)


def _commands(body: str) -> Iterator[list[str]]:
    for line in body.splitlines():
        if line.startswith("$ "):
            yield shlex.split(line[2:], comments=True)


def _run(words: list[str], folder: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    answer = subprocess.run(
        words, cwd=folder, env=environment, text=True, capture_output=True, timeout=500, check=False
    )

    assert answer.returncode == 0, f"{words}\n{answer.stdout}\n{answer.stderr}"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the source tree; what is run there leaves the tree clean."""
    folder = tmp_path_factory.mktemp("docs")
    for name in FOLDERS:
        (folder / name).symlink_to(ROOT / name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    (folder / "hosts.yaml").write_text(f"hosts: {{local: {{url: '{url}'}}}}\n")
    return folder


@pytest.fixture(scope="module")
def toured(workplace: Path) -> Path:
    """The tutorial, done once from top to bottom."""
    for language, body in _blocks(ROOT / "docs" / "tutorial" / "first-run.md"):
        if language == "python":
            _run([sys.executable, "-c", body], workplace)
        for words in _commands(body) if language == "console" else ():
            _run([*words, *_own_port(words)], workplace)
    return workplace


def _own_port(words: list[str]) -> list[str]:
    """Serve on a free port: the page's default one may be in use by another test."""
    return ["--hosts", "hosts.yaml"] if words[1] in {"plan", "run"} else []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_does_what_it_says(toured: Path) -> None:
    assert list(toured.glob("results/tour/*/report/findings.html"))
    assert list(toured.glob("results/tour/*/tables/trials.csv"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.process
def test_the_tour_notebook_runs_from_top_to_bottom(
    toured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECBENCH_ROOT", str(ROOT))
    monkeypatch.setenv("SPECBENCH_RESULTS", str(toured / "results" / "tour"))
    notebook = nbformat.read(  # type: ignore[no-untyped-call]  # the library has no types
        ROOT / "notebooks" / "tour.ipynb", as_version=4
    )

    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(toured)}}).execute()

    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 2


def test_the_matrix_of_the_tutorial_is_the_one_that_it_shows() -> None:
    page = (ROOT / "docs" / "tutorial" / "first-run.md").read_text(encoding="utf-8")
    shown = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    stored = (ROOT / "docs" / "tutorial" / "first.yaml").read_text(encoding="utf-8")

    assert shown is not None
    assert stored.endswith(shown[1])


def _options(words: list[str]) -> Iterator[str]:
    """Give the options of a documented command that the program does not know."""
    import typer  # noqa: PLC0415 - as above

    from specbench.cli.main import app  # noqa: PLC0415 - the whole command line

    command = typer.main.get_command(app)
    rest = words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]  # type: ignore[attr-defined]  # a group
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    if command.name == "serve":
        return  # takes the launch flags of SGLang as they are
    for word in rest:
        name = word.split("=", 1)[0]
        if name.startswith("-") and not name[1:2].isdigit() and name not in {*known, "--help"}:
            yield f"{' '.join(words)}: {name}"


def test_every_option_in_the_documentation_exists() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    shown = [
        words
        for page in pages
        for words in _commands(page.read_text(encoding="utf-8"))
        if words[:1] == ["specbench"]
    ]

    assert len(shown) > 20
    assert [unknown for words in shown for unknown in _options(words)] == []


def test_every_command_in_the_documentation_exists() -> None:
    import typer  # noqa: PLC0415 - as above

    from specbench.cli.main import app  # noqa: PLC0415 - the whole command line

    known = set(getattr(typer.main.get_command(app), "commands", {}))
    named = {
        words[1]
        for page in ROOT.glob("docs/**/*.md")
        for words in _commands(page.read_text(encoding="utf-8"))
        if words[:1] == ["specbench"] and len(words) > 1 and not words[1].startswith("-")
    }

    assert named
    assert named <= known
