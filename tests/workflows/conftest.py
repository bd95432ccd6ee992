"""What the tests of runs share."""

from pathlib import Path

import pytest

from specbench.workflows.prepare import RunOptions
from tests.workflows.fakes import MATRIX


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    (tmp_path / "m.yaml").write_text(MATRIX)
    return RunOptions(matrix=tmp_path / "m.yaml", results=tmp_path / "results")
