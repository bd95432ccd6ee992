"""Does `specbench load` say what the server did? Its columns beside the ground truth.

    python benchmarks/load_truth.py [--concurrency 1,8,64,256,512] [--pattern 1,3,2,4]

The server sends chunks of 1, 3, 2 and 4 tokens in turn, 10 ms apart, and writes down when. Prints
throughput, TPOT and TTFT as the table of the command has them, and by how much they are off.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from specbench.model.load import RequestRecord
from specbench.workflows.truth_server import Truth, build, read_log, serving, undisturbed

TOKENS = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--concurrency", default="1,8,64,256,512")
    parser.add_argument("--pattern", default="1,3,2,4")
    options = parser.parse_args()
    print("| concurrency | tok_s | off | tpot_ms_p50 | off | ttft_ms_p50 | off | flags |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="load-truth-") as scratch:
        server = build(Path(scratch))
        for level in map(int, options.concurrency.split(",")):
            print(_row(server, Path(scratch), level, options.pattern), flush=True)


def _row(server: Path, folder: Path, level: int, pattern: str) -> str:
    log, kept = folder / f"truth-{level}.jsonl", folder / f"rows-{level}"
    arguments = ["--ttft-us", "50000", "--gap-us", "10000", "--pattern", pattern]
    with serving(server, log, arguments, prefix=undisturbed()) as port:
        found = _load(port, level, kept)
    truths = read_log(log)
    decoder = msgspec.json.Decoder(RequestRecord)
    lines = (kept / f"concurrency-{level}.jsonl").read_bytes().splitlines()
    measured = [r.rid for r in map(decoder.decode, lines) if r.phase == "measured"]
    true = [truths[rid] for rid in measured]
    columns = found["columns"]
    cells = [str(level)]
    for name, of in (("tok_s", _tok_s), ("tpot_ms_p50", _tpot_ms), ("ttft_ms_p50", _ttft_ms)):
        cells += [f"{columns[name]:.3f}", f"{100 * (columns[name] / of(true) - 1):+.3f} %"]
    return f"| {' | '.join(cells)} | {' '.join(found['flags'])} |"


def _load(port: int, level: int, kept: Path) -> dict[str, Any]:
    words = ["--url", f"http://127.0.0.1:{port}", "--concurrency", level, "--model", "truth"]
    words += ["--engine", "sglang", "--requests", max(16, 3 * level), "--max-tokens", TOKENS]
    command = [sys.executable, "-m", "specbench", "load", *map(str, words), "--json"]
    done = subprocess.run(
        [*command, "--keep", str(kept)], stdout=subprocess.PIPE, check=True, timeout=300
    )
    found: dict[str, Any] = json.loads(done.stdout)["levels"][0]
    return found


def _tok_s(true: Sequence[Truth]) -> float:
    seconds = max(each.at_ns[-1] for each in true) - min(each.received_ns for each in true)
    return sum(sum(each.tokens) for each in true) / (seconds / 1e9)


def _tpot_ms(true: Sequence[Truth]) -> float:
    return _median(true, lambda t: (t.at_ns[-1] - t.at_ns[0]) / (sum(t.tokens) - t.tokens[0]))


def _ttft_ms(true: Sequence[Truth]) -> float:
    return _median(true, lambda t: t.at_ns[0] - t.received_ns)


def _median(true: Sequence[Truth], of: Callable[[Truth], float]) -> float:
    return float(np.median([of(each) for each in true])) / 1e6


if __name__ == "__main__":
    main()
