"""The server's own Python says which code it will serve: version, origin, commit, dirty or not."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.hosts.command import Launch
from specbench.hosts.state import facts_of
from specbench.model.host import Address, Host
from specbench.remote.local import LocalShell
from tests.launchers.tinyserve import git

pytestmark = pytest.mark.process

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder on the server's path with an installed package `tinyserve`."""
    package = tmp_path / "site" / "tinyserve"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('must not be imported')\n")
    told = tmp_path / "site" / "tinyserve-1.2.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyserve\nVersion: 1.2\n")
    return tmp_path / "site"


@pytest.fixture
def ask(local: Host, site: Path) -> Ask:
    def asked(argv: tuple[str, ...] = (sys.executable, "-m", "tinyserve.main")) -> dict[str, Any]:
        address = Address(host="127.0.0.1", port=1)
        launch = Launch(argv=argv, env={"PYTHONPATH": str(site)}, address=address)
        return facts_of(LocalShell(), local, launch)

    return asked


def origin(site: Path, document: object) -> None:
    (site / "tinyserve-1.2.dist-info" / "direct_url.json").write_text(json.dumps(document))


def test_the_machine_is_described_and_the_package_without_being_imported(ask: Ask) -> None:
    facts = ask()

    assert facts["server_package"] == {"name": "tinyserve", "version": "1.2"}
    assert facts["kernel"]
    assert facts["python"]


def test_a_package_installed_from_a_repository_names_its_commit(ask: Ask, site: Path) -> None:
    origin(site, {"url": "https://x.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}})

    assert ask()["server_package"]["revision"] == "abc"


def test_a_package_installed_from_a_wheel_names_its_hash(ask: Ask, site: Path) -> None:
    origin(site, {"url": "file:///t.whl", "archive_info": {"hashes": {"sha256": "beef"}}})

    assert ask()["server_package"]["archive_hash"] == "beef"


def test_an_editable_checkout_names_its_commit_and_what_was_changed_since(
    ask: Ask, site: Path
) -> None:
    origin(site, {"url": f"file://{site}", "dir_info": {"editable": True}})
    git(site, "init", "-q")
    git(site, "add", "tinyserve")
    git(site, "commit", "-q", "-m", "first")
    index = (site / ".git" / "index").read_bytes()

    clean = ask()["server_package"]
    (site / "tinyserve" / "__init__.py").write_text("x = 1\n")
    changed = ask()["server_package"]
    (site / "tinyserve" / "__init__.py").write_text("x = 2\n")
    again = ask()["server_package"]

    head = git(site, "rev-parse", "HEAD")
    assert clean == {
        "name": "tinyserve", "version": "1.2", "editable": True, "revision": head, "dirty": False,
    }  # fmt: skip
    assert (changed["revision"], changed["dirty"]) == (head, True)
    assert changed["diff_sha256"] != again["diff_sha256"]
    assert (site / ".git" / "index").read_bytes() == index


def test_an_environment_inside_somebodys_repository_is_no_checkout(ask: Ask, site: Path) -> None:
    (site.parent / "README").write_text("a project\n")
    git(site.parent, "init", "-q")
    git(site.parent, "add", "README")
    git(site.parent, "commit", "-q", "-m", "a project with a virtual environment in it")

    assert "revision" not in ask()["server_package"]


@pytest.mark.parametrize(
    "argv",
    [
        (sys.executable, "server.py"),
        (sys.executable, "-m", "no_such_package"),
        ("/no/such/python", "-m", "tinyserve"),
        (sys.executable, "-m", "specbench.engine"),
    ],
)
def test_code_that_cannot_be_told_is_left_out(ask: Ask, argv: tuple[str, ...]) -> None:
    assert "server_package" not in ask(argv)
