"""Time and memory of a report: of a quickstart, and of 1,000 trials with 1,000 requests each.

    python benchmarks/report_speed.py [--trials 1000] [--requests 1000]

Writes a synthetic recording in the real file format, reports it in a fresh process, and prints the
wall time, the peak resident memory and the size of findings.html.
"""

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

from specbench.analysis.summary import SUMMARY_VERSION, summarise
from specbench.model.block_facts import BlockFacts
from specbench.model.load import Accuracy, DriveReport, RequestRecord
from specbench.model.matrix import Cell
from specbench.model.plan import LaunchSpec, Trial
from specbench.recording import Manifest, SealedTrial

ALGORITHMS = ("ar", "dflash", "ddtree")
ACCEPTED = {"ar": 0.0, "dflash": 2.1, "ddtree": 2.9}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=1000)
    chosen = parser.parse_args()
    for trials, requests in ((24, 64), (chosen.trials, chosen.requests)):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "results" / "synthetic"
            write_recording(root, trials, requests)
            print(f"{trials} trials x {requests} requests: {measure(root)}", flush=True)


def measure(root: Path) -> str:
    """Report a recording in a process of its own; give what it cost."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "specbench", "report", str(root), "--json"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    size = (root / "report" / "findings.html").stat().st_size / 1e6
    return (
        f"{seconds:.1f} s ({cpu:.1f} s of CPU), {used.ru_maxrss / 1024:.0f} MiB at most,"
        f" findings.html {size:.2f} MB"
    )


def write_recording(root: Path, trials: int, requests: int) -> None:
    """Write a recording: cells of three algorithms, loads and temperatures, in two launches."""
    for name in ("trials", "blocks", "verdicts", "tables"):
        (root / name).mkdir(parents=True)
    manifest = Manifest(name="synthetic", specbench="0.1.0", created_at="2026-01-01T00:00:00+00:00",
                        matrix_path="m.yaml", matrix="name: synthetic\ncontrol: ar\n")  # fmt: skip
    (root / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    journal = [{"kind": "run_started"}]
    rng = np.random.default_rng(5)
    grid = itertools.product(range(10**6), (0, 1), (0.0, 1.0), (1, 4, 8, 16, 32, 64), ALGORITHMS)
    for number, (replicate, launch, temperature, concurrency, algorithm) in zip(
        range(trials), grid, strict=False
    ):
        block = f"{algorithm}-{launch}"
        trial = Trial(
            trial_id=f"t{number:05d}", host="local", block_id=block, replicate=replicate,
            cell=Cell(cell_id=f"{algorithm}-{temperature}-{concurrency}", levels={
                "algorithm": algorithm, "temperature": temperature, "concurrency": concurrency}),
            launch=launch, order=number, seed=0,
        )  # fmt: skip
        write_trial(root, trial, requests, rng)
        journal.append({"kind": "trial_sealed", "trial_id": trial.trial_id})
        (root / "blocks" / block).mkdir(exist_ok=True)
        facts = _facts(block, algorithm)
        (root / "blocks" / block / "facts.json").write_bytes(msgspec.json.encode(facts))
    (root / "journal.jsonl").write_text("".join(json.dumps(e) + "\n" for e in journal))


def _facts(block: str, algorithm: str) -> BlockFacts:
    spec = LaunchSpec(
        fingerprint=algorithm,
        algorithm=algorithm,
        speculative=algorithm != "ar",
        model_path="m",
        served_name="m",
    )
    return BlockFacts(
        block_id=block,
        host="local",
        spec=spec,
        server_info={"disable_cuda_graph": False},
        load_s=12.0,
        phase_times={"weights": 9.0, "graphs": 3.0},
    )


def write_trial(root: Path, trial: Trial, requests: int, rng: np.random.Generator) -> None:
    """Write one sealed trial, its rows summarised as a run would."""
    levels = trial.cell.levels
    accepted = ACCEPTED[str(levels["algorithm"])] * (1 - 0.1 * float(str(levels["temperature"])))
    slots = int(str(levels["concurrency"]))
    records = [_request(i, slots, accepted, rng) for i in range(requests)]
    end = max(record.end_ns or 0 for record in records)
    report = DriveReport(
        start_unix_ns=0, measured_start_ns=0, measured_end_ns=end, window_start_ns=0,
        window_end_ns=end, requests=requests, failed=0, interrupted=False,
        accuracy=Accuracy(stamp="kernel", processes=1, events=1, reads=1,
                                read_lag_us_p99=80.0),
    )  # fmt: skip
    folder = root / "trials" / trial.trial_id
    folder.mkdir()
    lines = msgspec.json.Encoder().encode_lines(records)
    (folder / "requests.jsonl").write_bytes(lines)
    row = summarise(records, report, speculative=accepted > 0)
    sealed = SealedTrial(
        trial=trial, status="ok", started_at=f"2026-01-01T{trial.order:05d}", ended_at="",
        report=report, row=row, row_version=SUMMARY_VERSION,
        server={"speculative": accepted > 0},
    )  # fmt: skip
    (folder / "trial.json").write_bytes(msgspec.json.encode(sealed))


def _request(number: int, slots: int, accepted: float, rng: np.random.Generator) -> RequestRecord:
    steps = 40
    step_ns = int(1e7 * (1 + slots / 40) * rng.normal(1, 0.02))
    sent = number * steps * step_ns // slots
    tokens = 1 + round(steps * (1 + accepted))
    chunks = [sent + step_ns * (i + 1) for i in range(steps + 1)]
    return RequestRecord(
        rid=f"r{number}", prompt_id=f"p{number % 111:03d}", category="chat", intended_ns=sent,
        written_ns=sent, first_token_ns=chunks[0], last_token_ns=chunks[-1], end_ns=chunks[-1],
        prompt_tokens=120, output_tokens=tokens, cached_tokens=0, chunk_ns=chunks,
        chunk_tokens=[1] + [tokens // steps] * steps, tokens_in_first_chunk=1,
        spec_verify_ct=steps if accepted else None,
        spec_accepted=round(steps * accepted) if accepted else None,
        spec_histogram=[5, 10, 15, 10] if accepted else None,
    )  # fmt: skip


if __name__ == "__main__":
    main()
