"""The worked diffs of CONTRIBUTING.md do what it says of them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests/fixtures/recordings/schema-1-before-codes"

PLACES = """
import sys
from pathlib import Path

import pandas as pd

from specbench.analysis.compare import compare
from specbench.config.levels import RESERVED
from specbench.model.columns import shown_in
from specbench.recording.tables import write_parquet
from specbench.report.writing import write_report
from specbench.workflows.recording_open import open_recording

name, root, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
recording = open_recording(root)
recording.trials.to_csv(out / "trials.csv", index=False)
write_parquet(recording.trials, out / "trials.parquet")
files = write_report([recording], out / "report")
found = compare(recording.trials, recording.requests, recording.blocks, "ar", "ddtree", metric=name)
print("table", recording.trials[name].notna().all())
print("csv", pd.read_csv(out / "trials.csv")[name].notna().all())
print("parquet", pd.read_parquet(out / "trials.parquet")[name].notna().all())
print("html", "TTFT max (ms)" in files.html.read_text(encoding="utf-8"))
print("compare", found.cells[0].this_workload.ratio > 0)
print("load", name in {column.name for column in shown_in("load")})
print("reserved", name in RESERVED)
"""


def _diff(heading: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split(f"\n### {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(r"```diff\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.process
def test_a_column_costs_two_files_and_is_everywhere(tmp_path: Path) -> None:
    diff = _diff("A column")
    shutil.copytree(ROOT / "specbench", tmp_path / "tree/specbench")
    shutil.copytree(KEPT, tmp_path / "kept")
    applied = subprocess.run(
        ["git", "apply", "--recount", "-"], cwd=tmp_path / "tree", input=diff, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (applied.returncode, applied.stderr) == (0, "")

    told = subprocess.run(
        [sys.executable, "-c", PLACES, "ttft_ms_max", str(tmp_path / "kept"), str(tmp_path)],
        cwd=tmp_path / "tree", env={"PYTHONPATH": str(tmp_path / "tree"), "PATH": ""}, text=True,
        capture_output=True, timeout=240, check=False,
    )  # fmt: skip

    assert told.stderr == ""
    assert set(told.stdout.splitlines()) == {
        f"{place} True"
        for place in ("table", "csv", "parquet", "html", "compare", "load", "reserved")
    }
    assert len(set(re.findall(r"^diff --git a/(\S+)", diff, re.MULTILINE))) == 2
