"""Every shell that the contract tests run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.remote.local import LocalShell
from specbench.remote.shell import Shell


@pytest.fixture(params=["local"])
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    shell = LocalShell()
    yield shell
    shell.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)
