"""The page of dependencies names each with the bound of pyproject.toml and a declared licence."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from docs.generated import licences

ROOT = Path(__file__).parents[2]


def test_every_dependency_has_a_lower_bound_and_a_licence_on_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [Requirement(each) for each in project["dependencies"]]

    page = licences()

    assert all(f"| {each.name} | {each.specifier} | " in page for each in needed)
    assert all(str(each.specifier).startswith(">=") for each in needed)
    assert "not declared" not in page
