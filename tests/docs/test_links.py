"""Every link of the documentation leads somewhere, and every reference page is complete."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from specbench.report.checklist import PITFALLS
from specbench.report.flags import FLAGS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"))
    if ".venv" not in path.parts
)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)

    missing = [
        target
        for target in targets
        if "://" not in target
        and not target.startswith("mailto:")
        and not (page.parent / target).exists()
    ]

    assert missing == []


@pytest.mark.process
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir",
         str(tmp_path / "site")],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, text=True, capture_output=True,
        timeout=240, check=False,
    )  # fmt: skip

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "specbench isolate" in (tmp_path / "site/reference/cli/index.html").read_text()


def test_every_flag_names_a_mistake_of_the_checklist() -> None:
    assert {flag.pitfall for flag in FLAGS.values()} <= {pitfall.id for pitfall in PITFALLS}


def test_every_flag_that_withholds_a_verdict_is_explained() -> None:
    from specbench.analysis.gate import WITHHOLDS  # noqa: PLC0415 - only here

    assert set(WITHHOLDS) <= set(FLAGS)


def test_the_notebooks_are_stored_without_output() -> None:
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]

        assert all(not cell.get("outputs") for cell in cells)
        assert all(cell.get("execution_count") is None for cell in cells)
