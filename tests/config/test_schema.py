"""The JSON Schemas: current in docs, true of the examples, named in their editor hints."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from specbench.config import hosts_schema, matrix_schema, parse_matrix, read_hosts, read_matrix
from specbench.errors import InputError

ROOT = Path(__file__).parents[2]
SCHEMAS = {"matrix": matrix_schema, "hosts": hosts_schema}
HOSTS = sorted([*ROOT.glob("*hosts.yaml"), *ROOT.glob("experiments/*hosts.yaml")])
MATRICES = sorted(set(ROOT.glob("experiments/*.yaml")) - set(HOSTS))


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_in_docs_is_current(kind: str) -> None:
    path = ROOT / f"docs/reference/{kind}.schema.json"

    assert json.loads(path.read_text("utf-8")) == SCHEMAS[kind](), "make fix writes it"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_is_a_schema(kind: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind]())


@pytest.mark.parametrize("path", [*MATRICES, *HOSTS], ids=lambda path: path.name)
def test_examples_carry_the_editor_hint_and_hold_to_the_schema(path: Path) -> None:
    kind = "hosts" if path in HOSTS else "matrix"

    first = path.read_text("utf-8").splitlines()[0]

    folder = "" if path.parent == ROOT else "../"
    assert first == f"# yaml-language-server: $schema={folder}docs/reference/{kind}.schema.json"
    Draft202012Validator(SCHEMAS[kind]()).validate(loaded(path))


@pytest.mark.parametrize("path", MATRICES, ids=lambda path: path.name)
def test_example_matrices_are_read(path: Path) -> None:
    assert read_matrix(path).factors


def test_the_example_hosts_are_read() -> None:
    assert "local" in read_hosts(ROOT / "hosts.yaml", {})


@pytest.mark.parametrize(
    "extra",
    [
        "verify: maybe\n",
        "spread: all\n",
        "seed: -1\n",
        "replicates: {launches: 0}\n",
        "workload: {requests: 0}\n",
        "workload: {nix: 0}\n",
        "nix: 1\n",
        "hosts: 3\n",
        "exclude: x\n",
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(extra: str) -> None:
    text = "name: m\nmodel: {path: p, served_name: s}\nfactors: {algorithm: ar}\n" + extra

    assert list(Draft202012Validator(matrix_schema()).iter_errors(yaml.safe_load(text)))
    with pytest.raises(InputError):
        parse_matrix(text)
