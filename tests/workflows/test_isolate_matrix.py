import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.errors import InputError
from specbench.model.load import LoadSpec, RequestRecord
from specbench.model.plan import LaunchSpec
from specbench.workflows.isolate_events import Finding
from specbench.workflows.isolate_matrix import IsolateOptions, isolate_matrix
from tests.workflows.fakes import OOM, FakeLab, answered

MATRIX = """\
name: fake
model: {path: m, served_name: m}
hosts: [local]
factors:
  algorithm: [dflash, ddtree]
  budget: [7, 15]
  topk: [1, 4]
  attention_backend: [fa3, triton]
  concurrency: [1, 4]
workload: {requests: 40, max_tokens: 8}
control: dflash
"""
GOOD = "algorithm == 'dflash' and budget == 7 and attention_backend == 'fa3'"
BAD = "algorithm == 'ddtree' and budget == 15 and topk == 4 and attention_backend == 'triton'"


class Servers(FakeLab):
    """Servers whose acceptance breaks when all of `cause` is in the launch."""

    def __init__(self, cause: Callable[[LaunchSpec], bool]) -> None:
        super().__init__()
        self.specs: list[LaunchSpec] = []
        self.cause = cause
        self.fails_to_load = self.note  # sees every launch
        self.records = self.serve

    def note(self, spec: LaunchSpec) -> None:
        self.specs.append(spec)

    def serve(self, job: LoadSpec) -> list[RequestRecord]:
        records = answered(job)
        if self.cause(self.specs[-1]):
            for record in records:
                record.spec_verify_ct, record.spec_accepted = 8, 0
        return records


def options(tmp_path: Path, **changes: Any) -> IsolateOptions:
    (tmp_path / "m.yaml").write_text(MATRIX)
    given: dict[str, Any] = {"good": GOOD, "bad": BAD, "probe": "accept_len < 2"} | changes
    return IsolateOptions(matrix=tmp_path / "m.yaml", results=tmp_path / "R", **given)


def find(tmp_path: Path, fake: FakeLab, **changes: str) -> Finding:
    *_, last = isolate_matrix(options(tmp_path, **changes), fake.lab())
    assert isinstance(last, Finding)
    return last


def levels(spec: LaunchSpec, **wanted: object) -> bool:
    return all(spec.levels.get(name) == level for name, level in wanted.items())


def test_a_pair_of_factors_is_found_between_two_cells_of_a_matrix(tmp_path: Path) -> None:
    fake = Servers(lambda spec: levels(spec, budget=15, attention_backend="triton"))

    found = find(tmp_path, fake)

    assert found.causes == {"budget": (7, 15), "attention_backend": ("fa3", "triton")}
    assert found.conclusive


def test_topk_is_a_suspect_of_its_own_beside_the_tree(tmp_path: Path) -> None:
    fake = Servers(lambda spec: levels(spec, algorithm="ddtree", topk=4))

    found = find(tmp_path, fake)

    assert found.causes == {"topk": (1, 4)}


def test_the_algorithm_is_told_from_its_options(tmp_path: Path) -> None:
    found = find(tmp_path, Servers(lambda spec: levels(spec, algorithm="ddtree")))

    assert found.causes == {"algorithm": ("dflash", "ddtree")}


def test_the_probe_is_shrunk_before_the_second_launch(tmp_path: Path) -> None:
    fake = Servers(lambda spec: levels(spec, budget=15))

    found = find(tmp_path, fake)

    assert found.settings["requests"] == 8
    assert fake.jobs[0].stop.requests == 40
    assert fake.jobs[-1].stop.requests == 8


def test_a_server_that_does_not_load_fails_the_crash_probe(tmp_path: Path) -> None:
    fake = FakeLab()
    fake.fails_to_load = lambda spec: OOM if levels(spec, budget=15, topk=4) else None

    found = find(tmp_path, fake, probe="crash")

    assert set(found.causes) == {"budget", "topk"}


@pytest.mark.process
def test_a_command_of_the_user_is_a_probe(tmp_path: Path) -> None:
    check = tmp_path / "check it.py"
    check.write_text(
        "import os, sys\n"
        "assert sys.argv[1] == os.environ['SPECBENCH_URL']\n"
        "sys.exit(os.environ['SPECBENCH_ALGORITHM'] == 'ddtree')\n"
    )

    found = find(
        tmp_path, FakeLab(), probe="lossless", command=f"{sys.executable} '{check}' {{url}}"
    )

    assert found.causes == {"algorithm": ("dflash", "ddtree")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"good": "algorithm == 'ddtree'"}, "names 8 servers"),
        ({"bad": "budget == 99"}, "names no cell"),
        ({"good": "algoritm == 'x'"}, "unknown factor 'algoritm'"),
        ({"bad": GOOD}, "need the same server"),
        ({"probe": "speed < 1"}, "no figure 'speed'"),
        ({"probe": "quick"}, "not a condition"),
        ({"command": "'"}, "cannot be read"),
        ({"command": "  "}, "is empty"),
    ],
)
def test_wrong_input_is_refused_before_any_launch(
    tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    fake = FakeLab()

    with pytest.raises(InputError, match=words):
        isolate_matrix(options(tmp_path, **changes), fake.lab())

    assert fake.log == []


@pytest.mark.process
def test_a_command_that_is_not_there_is_an_error_for_the_reader(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be run"):
        find(tmp_path, FakeLab(), command="/no/such/program {url}")
