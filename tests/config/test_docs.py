"""Every YAML block of the guide to matrices is one that specbench reads."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from specbench import planning
from specbench.config import parse_hosts, parse_matrix

GUIDE = Path(__file__).parents[2] / "docs/how-to/matrix.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
FULL = BLOCKS[0]
PARTS = [block for block in BLOCKS[1:] if "\nhosts:" not in block]
HOSTS = [block for block in BLOCKS[1:] if "\nhosts:" in block]


@pytest.mark.parametrize("part", ["", *PARTS])
def test_a_matrix_of_the_guide_expands(part: str) -> None:
    whole: dict[str, Any] = yaml.safe_load(FULL) | (yaml.safe_load(part) or {})

    cells = planning.expand(parse_matrix(yaml.safe_dump(whole)))

    assert {cell.algorithm for cell in cells} >= {"ar", "dflash"}


def test_the_hosts_of_the_guide_are_read() -> None:
    assert [set(parse_hosts(block, environ={})) for block in HOSTS] == [{"gpu1"}]
