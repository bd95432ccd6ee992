"""specbench drives the real engines from end to end, by its public commands."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import specbench as sb
from tests.ports import free_port
from tests.real import engines, outcomes
from tests.real.engines import Product

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
# Products that specbench can launch, with the matrix that does it.
MATRICES: dict[Product, str] = {"sglang": "sglang-cpu", "vllm": "vllm-cpu", "llamacpp": "llamacpp"}
# The speculative mode that is measured and verified where the server runs already.
MODES: dict[Product, str] = {"sglang": "ngram", "vllm": "eagle", "llamacpp": "draft-model"}
# Exit statuses of `verify`. SGLang verifies greedily on a CPU, so that it is lossy at T>0. vLLM's
# build for CPUs samples verified tokens with a temperature that it never wrote, so that it can be.
# llama.cpp gives no log-probabilities of a prompt, so that little can be decided.
STATUSES: dict[Product, set[int]] = {"sglang": {1}, "vllm": {0, 1, 5}, "llamacpp": {1}}


def _specbench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    home = engines.folder()
    path = f"{home}/llamacpp/bin{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "SPECBENCH_ENGINES": str(home), "PATH": path}
    return subprocess.run(
        [sys.executable, "-m", "specbench", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )


def _files_of(name: str, folder: Path) -> list[str]:
    """A matrix of the folder experiments, and its hosts on a port that is free."""
    hosts = (ROOT / "experiments" / f"{name}.hosts.yaml").read_text()
    address = f"url: http://127.0.0.1:{free_port()}"
    (folder / "hosts.yaml").write_text(re.sub(r"url: \S+", address, hosts))
    shutil.copy(ROOT / "experiments" / f"{name}.yaml", folder / "m.yaml")
    return ["m.yaml", "--hosts", "hosts.yaml"]


def _alive() -> list[str]:
    """Command lines of processes that run a program of the engines' folder."""
    home = str(engines.folder()).encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(home):
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.fixture
def server(product: Product, tmp_path: Path) -> Iterator[str]:
    """The address of a ready server with speculation."""
    mode = engines.modes(product)[MODES[product]]
    with engines.running(product, mode, free_port(), tmp_path / "server.log") as url:
        yield url


@pytest.fixture(scope="module", params=MATRICES)
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Product, Path]:
    """A folder in which the matrix of a product was run, its recording under R."""
    product: Product = request.param
    folder = tmp_path_factory.mktemp(product)
    files = _files_of(MATRICES[product], folder)
    done = _specbench(folder, "run", *files, "--results", "R", "--json")
    assert done.returncode == 0, done.stderr
    return product, folder


def test_a_run_launches_measures_and_stops_every_server(ran: tuple[Product, Path]) -> None:
    product, folder = ran

    (recording,) = [path for path in (folder / "R").iterdir() if path.is_dir()]
    trials = sb.open(recording).trials

    assert _alive() == []
    assert set(trials["status"]) == {"ok"}
    plain = trials["algorithm"] == "ar"
    assert trials["algorithm"].nunique() == 3
    assert (trials.loc[plain, "accept_len"] == 1.0).all()
    assert (trials.loc[~plain, "accept_len"] > 1.0).all()
    assert (trials["tok_s"] > 0.0).all()
    outcomes.keep(product, "run", {"trials": _rows(trials)})


def _rows(trials: pd.DataFrame) -> list[dict[str, object]]:
    columns = ["algorithm", "concurrency", "tok_s", "tpot_ms_p50", "accept_len", "step_ms", "flags"]
    rows: list[dict[str, object]] = json.loads(trials[columns].to_json(orient="records"))
    return rows


def test_a_recording_of_real_servers_has_a_report(ran: tuple[Product, Path]) -> None:
    _, folder = ran

    done = _specbench(folder, "report", "--results", "R", "-o", "out")

    assert done.returncode == 0, done.stderr
    assert "accept_len" in (folder / "out" / "findings.md").read_text()
    assert (folder / "out" / "findings.html").exists()


@pytest.mark.parametrize("product", MODES)
def test_load_counts_every_token_of_a_real_server(
    product: Product, server: str, tmp_path: Path
) -> None:
    ask = ["--concurrency", "1,4", "--requests", "12", "--max-tokens", "48", "--json"]

    done = _specbench(tmp_path, "load", "--url", server, "--dataset", "builtin:short", *ask)

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    rows = [level["columns"] for level in answer["levels"]]
    assert [row["n_failed"] for row in rows] == [0, 0]
    assert all(row["n_requests"] == 12 and 12 < row["output_tokens"] <= 12 * 48 for row in rows)
    assert all(row["tok_s"] > 0.0 for row in rows)
    outcomes.keep(product, "load", {"mode": MODES[product], "levels": rows})


@pytest.mark.parametrize("product", MODES)
def test_verify_finds_no_real_server_lossy_at_temperature_0(
    product: Product, server: str, tmp_path: Path
) -> None:
    done = _specbench(
        tmp_path, "verify", "--url", server, "--budget", "quick", "--concurrency", "4",
        "--json", "verdict.json",
    )  # fmt: skip

    verdict = json.loads((tmp_path / "verdict.json").read_text())
    claims = {claim["name"]: claim["verdict"] for claim in verdict["claims"]}
    greedy = [found for name, found in claims.items() if name.startswith("greedy")]
    assert greedy
    assert "violated" not in greedy
    assert "holds" in greedy or product == "llamacpp"
    assert done.returncode in STATUSES[product], done.stderr
    outcomes.keep(
        product, "verify", {"mode": MODES[product], "verdict": verdict["verdict"], "claims": claims}
    )
