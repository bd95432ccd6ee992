"""The worked diffs of CONTRIBUTING.md do what it says of them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.worked_diffs import ROOT, Change, apply, copy_of_the_package, diffs

KEPT = ROOT / "tests/fixtures/recordings/schema-1-before-codes"

COLUMNS = """
import sys
from pathlib import Path

import pandas as pd

from specbench.analysis.compare import compare
from specbench.config.levels import RESERVED
from specbench.model.columns import BY_NAME, shown_in
from specbench.recording.tables import write_parquet
from specbench.report.writing import write_report
from specbench.workflows.recording_open import open_recording

root, out = Path(sys.argv[1]), Path(sys.argv[2])
recording = open_recording(root)
recording.trials.to_csv(out / "trials.csv", index=False)
write_parquet(recording.trials, out / "trials.parquet")
html = write_report([recording], out / "report").html.read_text(encoding="utf-8")
for name in sys.argv[3:]:
    found = compare(
        recording.trials, recording.requests, recording.blocks, "ar", "ddtree", metric=name
    )
    print(name, "table", recording.trials[name].notna().all())
    print(name, "csv", pd.read_csv(out / "trials.csv")[name].notna().all())
    print(name, "parquet", pd.read_parquet(out / "trials.parquet")[name].notna().all())
    print(name, "html", f">{BY_NAME[name].heading}<" in html)
    print(name, "compare", found.cells[0].this_workload.ratio > 0)
    print(name, "load", name in {column.name for column in shown_in("load")})
    print(name, "reserved", name in RESERVED)
"""

FACTOR = """
import sys

from specbench import config, planning
from specbench.report.cells import REQUEST_SIDE

TEXT = '''
name: m
model: {path: m, served_name: m}
hosts: [local]
factors: {algorithm: ar, temperature: 0.5%s}
'''

def cells(more):
    matrix = config.parse_matrix(TEXT % more, "m.yaml")
    found = planning.expand(matrix, datasets={"builtin:mixed": "d"})
    return matrix, found

name = sys.argv[1]
matrix, found = cells(f", {name}: [0.0, 1.0]")
print([getattr(planning.asked(matrix, cell).sampling, name) for cell in found])
print(name in REQUEST_SIDE, len({cell.launch for cell in found}))
print(name in config.matrix_schema()["$defs"]["MatrixFile"]["properties"]["factors"]["properties"])
print(cells("")[1][0].cell_id)
"""

LAUNCHER = """
import msgspec

from specbench.config.hosts_file import HostsFile
from specbench.launchers.launcher import starter_for
from specbench.launchers.process import ProcessLauncher
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.remote.local import LocalShell

spec = LaunchSpec(
    fingerprint="f", algorithm="ar", speculative=False, model_path="/m", served_name="tiny"
)
host = msgspec.convert({"name": "here", "launcher": "numactl"}, Host)
starter = starter_for(host, LocalShell("here"))
plain = starter_for(msgspec.structs.replace(host, launcher="process"), LocalShell("here"))
print(starter.launch(spec).argv[:3], starter.launch(spec).argv[3:] == plain.launch(spec).argv)
"""


def _told(script: str, tree: Path, *words: str) -> list[str]:
    """Run a script on a changed copy of the package; give the lines that it writes."""
    answer = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tree, env={"PYTHONPATH": str(tree), "PATH": ""}, text=True,
        capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    assert answer.stderr == ""
    return answer.stdout.splitlines()


def _files(changes: list[Change]) -> set[str]:
    return {change.path for change in changes}


@pytest.mark.process
def test_a_column_costs_two_files_or_one_and_is_everywhere(tmp_path: Path) -> None:
    tree = copy_of_the_package(tmp_path / "tree")
    computed, percentile = diffs("A column")
    apply(computed, tree)
    apply(percentile, tree)
    shutil.copytree(KEPT, tmp_path / "kept")

    told = _told(COLUMNS, tree, str(tmp_path / "kept"), str(tmp_path), "finished_rps", "e2e_ms_max")

    assert (len(_files(computed)), len(_files(percentile))) == (2, 1)
    places = ("table", "csv", "parquet", "html", "compare", "load", "reserved")
    assert set(told) == {
        f"{name} {place} True" for name in ("finished_rps", "e2e_ms_max") for place in places
    }


@pytest.mark.process
def test_a_request_factor_costs_one_file_and_renames_no_cell(tmp_path: Path) -> None:
    tree = copy_of_the_package(tmp_path / "tree")
    before = _told(FACTOR, tree, "min_p")
    (changes,) = diffs("A request factor")
    apply(changes, tree)

    told = _told(FACTOR, tree, "presence_penalty")

    assert len(_files(changes)) == 1
    assert told[:-1] == ["[0.0, 1.0]", "True 1", "True"]
    assert told == before


@pytest.mark.process
def test_a_server_product_costs_one_folder_one_entry_one_table(tmp_path: Path) -> None:
    tree = copy_of_the_package(tmp_path / "tree")
    (changes,) = diffs("A server product")
    apply(changes, tree)

    contract = tmp_path / "test_contract.py"
    shutil.copy(ROOT / "tests/backends/test_contract.py", contract)
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly",
         "-c", "/dev/null", "--rootdir", str(tmp_path), "-k", "swift", str(contract)],
        cwd=tree, env={"PYTHONPATH": str(tree), "PATH": ""}, text=True,
        capture_output=True, timeout=240, check=False,
    )  # fmt: skip

    assert answer.returncode == 0, answer.stdout
    assert int(re.search(r"(\d+) passed", answer.stdout)[1]) > 30  # type: ignore[index]
    outside = {path for path in _files(changes) if "backends/swift/" not in path}
    assert outside == {"specbench/backends/products.py", "specbench/data/algorithms-swift.yaml"}


@pytest.mark.process
def test_a_launcher_that_wraps_the_command_costs_three_files(tmp_path: Path) -> None:
    tree = copy_of_the_package(tmp_path / "tree")
    (changes,) = diffs("A launcher")
    apply(changes, tree)

    told = _told(LAUNCHER, tree)

    assert told == ["('numactl', '--cpunodebind=0', '--membind=0') True"]
    assert len(_files(changes)) == 3


@pytest.mark.process
def test_what_the_diffs_add_is_written_as_make_check_wants_it(tmp_path: Path) -> None:
    tree = copy_of_the_package(tmp_path / "tree")
    for heading in ("A server product", "A launcher", "A column", "A request factor"):
        for changes in diffs(heading):
            apply(changes, tree)
    shutil.copy(ROOT / "pyproject.toml", tree)

    for words in (["format", "--check"], ["check"]):
        answer = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--no-cache", "specbench"],
            cwd=tree, text=True, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout
