"""Are servers survived that answer wrongly, for ever, or not at all?

    python benchmarks/hostile_servers.py
    python benchmarks/hostile_servers.py --only 'post: silence' --command load --jobs 1

Each hostile server (benchmarks/hostile/servers.py) meets `load`, `run` with launcher `attach`, and
`verify`, each as a process of its own. A run fails that ends in a traceback, takes longer or more
memory than allowed, has an exit status that no page of the docs names, says nothing, or puts a
control character on the screen. Patience is the default where nothing is ever answered, and 10 s a
request elsewhere. Exit status 1 where any run failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hostile.servers import Server, every

HERE = Path(__file__).parent
COMMANDS = ("load", "run", "verify")
SILENT_S, PATIENT_S, TIMEOUT_S = 60.0, 120.0, 10.0
START_S = 20.0
"""Of a loaded machine, to start Python; it is no time of the command's."""
MEMORY_MIB = 1024
STATUSES = frozenset({0, 1, 2, 3, 4, 5})
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Outcome:
    """How one command ended against one server."""

    server: str
    command: str
    status: int | None
    seconds: float
    mebibytes: float
    said: str
    wrong: tuple[str, ...]


def main() -> None:
    """Run what was asked for; print a line a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="servers whose name holds this")
    parser.add_argument("--command", choices=COMMANDS, action="append")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    servers = [one for one in every() if (options.only or "") in one.name]
    pairs = [(one, command) for one in servers for command in options.command or COMMANDS]
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(map(_shown, pool.map(lambda pair: attack(*pair), pairs)))
    failed = [one for one in outcomes if one.wrong]
    slowest = max((one.seconds for one in outcomes), default=0.0)
    largest = max((one.mebibytes for one in outcomes), default=0.0)
    print(
        f"{len(servers)} servers, {len(outcomes)} runs, {len(failed)} failed;"
        f" the slowest took {slowest:.0f} s, the largest {largest:.0f} MiB"
    )
    sys.exit(bool(failed) or not outcomes)


def _shown(one: Outcome) -> Outcome:
    verdict = "; ".join(one.wrong) or "ok"
    last = one.said.strip().splitlines()[-1:] or [""]
    print(
        f"{one.command:6} {one.server:40} status {one.status} {one.seconds:5.1f} s"
        f" {one.mebibytes:5.0f} MiB  {verdict}  | {last[0][:110]}",
        flush=True,
    )
    return one


def attack(server: Server, command: str) -> Outcome:
    """Start a server, let a command meet it, and judge how that ended."""
    allowed_s = START_S + (SILENT_S if server.silent else PATIENT_S)
    with _serving(server) as port, tempfile.TemporaryDirectory(prefix="hostile-") as scratch:
        argv = _argv(command, f"http://127.0.0.1:{port}", Path(scratch), server)
        log = Path(scratch) / "said"
        began = time.monotonic()
        status, kibibytes = _run(argv, log, allowed_s)
        seconds = time.monotonic() - began
        said = log.read_bytes().decode(errors="surrogateescape")
    mebibytes = kibibytes / 1024
    wrong = tuple(_wrong(status, mebibytes, said, allowed_s))
    return Outcome(server.name, command, status, seconds, mebibytes, said, wrong)


def _wrong(status: int | None, mebibytes: float, said: str, allowed_s: float) -> Iterator[str]:
    if status is None:
        yield f"not done after {allowed_s:.0f} s"
    elif status not in STATUSES:
        yield f"exit status {status}"
    if "Traceback (most recent call last)" in said:
        yield "a traceback"
    if mebibytes > MEMORY_MIB:
        yield f"{mebibytes:.0f} MiB"
    if not said.strip():
        yield "not a word"
    if _UNSHOWN.search(said):
        yield "a control character"


def _argv(command: str, url: str, scratch: Path, server: Server) -> list[str]:
    program = [sys.executable, "-m", "specbench"]
    patience = [] if server.silent else ["--timeout", f"{TIMEOUT_S:g}"]
    match command:
        case "load":
            small = ["--concurrency", "2", "--requests", "4", "--max-tokens", "8"]
            return [*program, "load", "--url", url, *small, *patience]
        case "verify":
            return [*program, "verify", "--url", url, "--budget", "quick", *patience]
        case _:
            matrix, hosts = _matrix(scratch, url, server)
            results = str(scratch / "results")
            return [*program, "run", str(matrix), "--hosts", str(hosts), "--results", results]


def _matrix(scratch: Path, url: str, server: Server) -> tuple[Path, Path]:
    product = "openai" if server.owner == "someone" else server.owner
    bound = "" if server.silent else f", request_timeout_s: {TIMEOUT_S:g}"
    matrix, hosts = scratch / "matrix.yaml", scratch / "hosts.yaml"
    matrix.write_text(
        "name: hostile\nmodel: {path: m, served_name: m}\nhosts: [local]\n"
        f"server: {{engine: {product}}}\n"
        "factors: {algorithm: [ar], concurrency: [2]}\n"
        f"workload: {{dataset: builtin:mixed, requests: 4, max_tokens: 8{bound}}}\n"
    )
    hosts.write_text(f"hosts:\n  local:\n    launcher: attach\n    url: {url}\n")
    return matrix, hosts


class _serving:  # noqa: N801 - a context manager, read as a word
    def __init__(self, server: Server) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hostile.server", server.name],
            stdout=subprocess.PIPE,
            cwd=HERE,
            text=True,
        )

    def __enter__(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _run(argv: list[str], log: Path, allowed_s: float) -> tuple[int | None, int]:
    """Run a command; give its status, None where it had to be killed, and its largest KiB.

    The kernel counts the largest of the command and of the load workers that it waited for.
    """
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "COLUMNS": "200"}
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env=environment)
        killed = threading.Event()

        def kill() -> None:
            killed.set()
            process.kill()

        timer = threading.Timer(allowed_s, kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    return (None if killed.is_set() else process.returncode), usage.ru_maxrss


if __name__ == "__main__":
    main()
