"""The page of dependencies names each with the bound of pyproject.toml and a declared licence."""

import importlib.util
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def test_every_dependency_has_a_lower_bound_and_a_licence_on_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [Requirement(each) for each in project["dependencies"]]

    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    generated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generated)

    page = generated.licences()

    assert all(f"| {each.name} | {each.specifier} | " in page for each in needed)
    assert all(str(each.specifier).startswith(">=") for each in needed)
    assert "not declared" not in page
