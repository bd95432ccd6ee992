"""The picture of the floors is the one that is enforced."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def enforced() -> list[set[str]]:
    """Read the floors of the layers contract, from the top."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    floors = contracts["importlinter:contract:layers"]["layers"].split("\n")
    return [set(re.findall(r"\w+", floor)) for floor in floors if floor.strip()]


def drawn() -> list[set[str]]:
    """Read the floors of the page: rooms stand before the wide gap, their purpose behind it."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    picture = re.search(r"```text\n(cli .*?)```", page, re.DOTALL)
    assert picture is not None
    return [
        set(re.findall(r"\w+", re.split(r" {3,}", line)[0])) for line in picture[1].splitlines()
    ]


def test_the_floors_on_the_page_are_those_that_make_check_enforces() -> None:
    assert drawn() == enforced()


def test_every_room_of_the_package_is_on_the_page() -> None:
    rooms = {path.parent.name for path in (ROOT / "specbench").glob("*/__init__.py")}

    assert rooms - {"engine"} <= set().union(*drawn(), {"errors"})


def test_every_file_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:model|launchers|workflows)/\w+\.py)`", page)

    assert named
    assert all((ROOT / "specbench" / name).is_file() for name in named)
