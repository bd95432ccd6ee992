"""Error against truth and CPU per event, ours beside the C floor and a peer, in one run.

    python benchmarks/load_bench.py [--streams 1,16,64,256,512,2048] [--gap-ms 10] [--repeats 3]

Server on CPU 0 at real-time priority where allowed, clients on CPU 1 (--pin; all of a client's
processes). The peer is SGLang's Rust client, which its wheel carries and which runs without the
rest: `pip download --no-deps sglang`, then --peer WHEEL. It drives /generate, the others the chat
API. Read ratios inside one table: a shared machine's figures move by tens of per cent.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from specbench.backends.backend import Ask
from specbench.backends.products import backend_for
from specbench.loadgen import drive
from specbench.model.load import DriveReport, Prompt, RequestRecord, Sampling
from specbench.workflows.self_test import truth_load
from specbench.workflows.truth_server import (
    build,
    compare,
    first_error_us,
    gap_errors_us,
    held,
    read_log,
    serving,
)

TOKENS = 100
Figures = dict[str, Any]


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="load-bench-") as scratch:
        folder = Path(scratch)
        server, floor = build(folder), build(folder, "floor_client")
        clients: dict[str, Callable[[int, int], tuple[Figures, Any]]] = {
            "floor (C)": lambda port, streams: _floor(floor, folder, port, streams, options),
            "specbench": lambda port, streams: _ours(folder, port, streams, options, 1),
        }
        if options.processes > 1:
            clients[f"specbench x{options.processes}"] = lambda port, streams: _ours(
                folder, port, streams, options, options.processes
            )
        if options.peer:
            with zipfile.ZipFile(options.peer) as wheel:
                name = next(each for each in wheel.namelist() if "/_bench." in each)
                extension = wheel.extract(name, folder)
            clients["sglang (Rust)"] = lambda port, streams: _rust(
                extension, folder, port, streams, options
            )
        rows = [
            _median(
                [
                    _measure(server, folder, streams, name, run, options)
                    for _ in range(options.repeats)
                ]
            )
            for streams in options.streams
            for name, run in clients.items()
        ]
    _print(rows, options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--streams",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[1, 16, 64, 256, 512, 2048],
    )
    parser.add_argument("--gap-ms", type=float, default=10.0)
    parser.add_argument("--pattern", default="1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2, help="requests of each stream")
    parser.add_argument(
        "--processes", type=int, default=1, help="also measure with so many workers"
    )
    parser.add_argument(
        "--priority",
        choices=("normal", "realtime"),
        default="normal",
        help="of the clients; the server is at real-time priority where allowed",
    )
    parser.add_argument("--pin", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--peer", type=Path, help="an SGLang wheel")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _measure(
    server: Path,
    folder: Path,
    streams: int,
    name: str,
    run: Callable[[int, int], tuple[Figures, Any]],
    options: argparse.Namespace,
) -> Figures:
    log = folder / "truth.jsonl"
    arguments = ["--ttft-us", "50000", "--gap-us", str(round(options.gap_ms * 1000)), "--step"]
    if options.pattern != "1":
        arguments += ["--pattern", options.pattern]
    with serving(server, log, arguments, prefix=_server_prefix(options)) as port:
        figures, seen = run(port, streams)
    truths = read_log(log)
    ttft, gap, wrong = seen(truths)
    return {
        "streams": streams,
        "client": name,
        **figures,
        "ttft_p50": float(np.percentile(ttft, 50)),
        "ttft_p99": float(np.percentile(ttft, 99)),
        "gap_p50": float(np.percentile(gap, 50)) if gap.size else 0.0,
        "gap_p99": float(np.percentile(gap, 99)) if gap.size else 0.0,
        "miscounted": wrong,
    }


def _ours(
    folder: Path, port: int, streams: int, options: argparse.Namespace, processes: int
) -> tuple[Figures, Any]:
    sink = folder / "rows.jsonl"
    sink.unlink(missing_ok=True)
    job = truth_load(folder, port, streams, options.requests * streams, TOKENS, processes=processes)
    with _on_client_cpu(options, processes):
        *_, report = drive(job, sink)
    assert isinstance(report, DriveReport)
    found = report.accuracy
    decoder = msgspec.json.Decoder(RequestRecord)
    records = [decoder.decode(line) for line in sink.read_bytes().splitlines()]

    def seen(truths: Any) -> tuple[Any, Any, int]:
        errors = compare(records, truths)
        figures["claim_held"] = held(errors, found)
        return errors.ttft, errors.gap, errors.miscounted

    wall = (report.measured_end_ns - report.measured_start_ns) / 1e9
    figures: Figures = {
        "events_s": found.events / wall,
        "us_event": (found.cpu_s or 0) / found.events * 1e6,
        "exact": found.exact_share,
        "claim_ttft": found.ttft_error_us,
        "claim_gap": found.gap_error_us,
    }
    return figures, seen


def _floor(
    floor: Path, folder: Path, port: int, streams: int, options: argparse.Namespace
) -> tuple[Figures, Any]:
    body, out = folder / "body.json", folder / "floor.jsonl"
    prompt = Prompt(prompt_id="truth", text="Say something.")
    ask = Ask(prompt=prompt, sampling=Sampling(max_tokens=TOKENS), model="truth", rid="floor")
    request = backend_for("").request(ask)
    body.write_bytes(request.body)
    command = [
        *_client_prefix(options),
        str(floor),
        "--port",
        str(port),
        "--streams",
        str(streams),
        "--requests",
        str(options.requests * streams),
        "--body",
        str(body),
        "--path",
        request.path,
        "--out",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    told = json.loads(done.stdout)
    rows = [json.loads(line) for line in out.read_bytes().splitlines()]

    def seen(truths: Any) -> tuple[Any, Any, int]:
        ttft, gaps, wrong = [], [], 0
        for row in rows:
            truth = truths[row["id"]]
            at = row["at_ns"][1 : 1 + len(truth.at_ns)]  # the role event comes first
            if len(row["at_ns"]) < len(truth.at_ns) + 4:
                wrong += 1
                continue
            ttft.append(first_error_us(at[0] - row["start_ns"], truth))
            gaps.append(gap_errors_us(at, truth))
        content = sum(len(truth.at_ns) for truth in truths.values())
        figures["us_event"] = told["cpu_s"] / content * 1e6
        figures["events_s"] = content / told["wall_s"]
        return np.array(ttft), np.concatenate(gaps), wrong

    figures: Figures = {}
    return figures, seen


_RUN_RUST = """
import importlib.util, json, resource, sys
spec = importlib.util.spec_from_file_location("_bench", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
before = resource.getrusage(resource.RUSAGE_SELF)
module.run_argv(["bench", *sys.argv[2:]])
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print("\\n" + json.dumps({"cpu_s": cpu}))
"""


def _rust(
    extension: str, folder: Path, port: int, streams: int, options: argparse.Namespace
) -> tuple[Figures, Any]:
    out = folder / "rust.jsonl"
    out.unlink(missing_ok=True)
    flags = {
        "--backend": "sglang",
        "--base-url": f"http://127.0.0.1:{port}",
        "--dataset-name": "random-ids",
        "--vocab-size": "1000",
        "--random-input-len": "8",
        "--random-output-len": str(TOKENS),
        "--random-range-ratio": "1.0",
        "--num-prompts": str(options.requests * streams),
        "--max-concurrency": str(streams),
        "--warmup-requests": "0",
        "--model": "truth",
        "--output-file": str(out),
    }
    switches = ["--tokenize-prompt", "--disable-retokenize", "--output-details", "--disable-tqdm"]
    command = [*_client_prefix(options), sys.executable, "-c", _RUN_RUST, extension, *switches]
    command += [word for flag in flags.items() for word in flag]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise SystemExit(f"the peer failed: {done.stderr[-1000:]}")
    cpu_s = json.loads(done.stdout.splitlines()[-1])["cpu_s"]
    told = json.loads(out.read_bytes().splitlines()[-1])

    def seen(truths: Any) -> tuple[Any, Any, int]:
        ttft, gaps, wrong = [], [], 0
        for text, first, itl in zip(
            told["generated_texts"], told["ttfts"], told["itls"], strict=True
        ):
            truth = truths[f"truth-{int(text[2:6])}"]
            if len(itl) != len(truth.at_ns) - 1:
                wrong += 1
                continue
            ttft.append(first_error_us(first * 1e9, truth))
            gaps.append(abs(np.array(itl) * 1e6 - np.diff(np.array(truth.at_ns)) / 1e3))
        content = sum(len(truth.at_ns) for truth in truths.values())
        figures["us_event"] = cpu_s / content * 1e6
        figures["events_s"] = content / told["duration"]
        return np.array(ttft), np.concatenate(gaps) if gaps else np.array([0.0]), wrong

    figures: Figures = {}
    return figures, seen


def _server_prefix(options: argparse.Namespace) -> list[str]:
    pinned = ["taskset", "-c", "0"] if options.pin and (os.cpu_count() or 1) > 1 else []
    return pinned + (_realtime() if os.geteuid() == 0 else [])


def _client_prefix(options: argparse.Namespace) -> list[str]:
    pinned = ["taskset", "-c", "1"] if options.pin and (os.cpu_count() or 1) > 1 else []
    return pinned + (_realtime() if options.priority == "realtime" else [])


def _realtime() -> list[str]:
    return ["chrt", "-f", "10"] if shutil.which("chrt") else []


class _on_client_cpu:  # noqa: N801 - reads as a phrase
    """Pins this process while it starts the workers, which inherit it."""

    def __init__(self, options: argparse.Namespace, processes: int) -> None:
        self._wanted = options.pin and processes == 1 and (os.cpu_count() or 1) > 1
        self._realtime = options.priority == "realtime"

    def __enter__(self) -> None:
        self._before = os.sched_getaffinity(0)
        if self._wanted:
            os.sched_setaffinity(0, {1})
        if self._realtime:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self._before)
        if self._realtime:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _median(runs: list[Figures]) -> Figures:
    """Take the run's median of every figure."""
    return {
        key: float(np.median([run[key] for run in runs])) if isinstance(value, float) else value
        for key, value in runs[0].items()
    }


def _print(rows: list[Figures], options: argparse.Namespace) -> None:
    print(
        f"step {options.gap_ms:g} ms, {TOKENS} tokens, pattern {options.pattern}, clients at"
        f" {options.priority} priority, medians of {options.repeats} runs; errors in us"
    )
    print(
        "| streams | client | events/s | us/event | / floor | ttft off p50 / p99 |"
        " gap off p50 / p99 | claimed ttft / gap | held | miscounted |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    floor = {row["streams"]: row["us_event"] for row in rows if row["client"].startswith("floor")}
    for row in rows:
        cells = [
            str(row["streams"]),
            row["client"],
            f"{row['events_s']:.0f}",
            f"{row['us_event']:.2f}",
            f"{row['us_event'] / floor[row['streams']]:.2f}",
            f"{row['ttft_p50']:.1f} / {row['ttft_p99']:.1f}",
            f"{row['gap_p50']:.1f} / {row['gap_p99']:.1f}",
            f"{row['claim_ttft']:.0f} / {row['claim_gap']:.0f}" if "claim_ttft" in row else "",
            f"{row['claim_held']:.1%}" if "claim_held" in row else "",
            str(row["miscounted"]),
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    sys.exit(main())
