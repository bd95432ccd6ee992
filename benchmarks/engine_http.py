"""Drive the reference engine over HTTP: output tokens per second on one core, memory over requests.

    python benchmarks/engine_http.py throughput     # ar and ddtree, 16 streams, --time-scale 0
    python benchmarks/engine_http.py memory         # 100,000 short requests, resident memory

The server is pinned to one core, this client to the others (to the same one if there is no other).
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ARMS = {
    "ar": [],
    "ddtree": [
        "--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "16",
        "--max-running-requests", "64",
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A running engine: its port and process id."""

    port: int
    pid: int

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024

    def cpu_s(self) -> float:
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        fields = stat.rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def engine(flags: list[str], core: int) -> Iterator[Served]:
    command = [
        sys.executable, "-m", "specbench.engine", "--model-path", "bench", "--port", "0",
        "--time-scale", "0", "--load-seconds", "0", "--log-level", "warning", *flags,
        "--log-level-http", "info",
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        port = next(
            int(found.group(1))
            for line in process.stderr
            if (found := re.search(r"Uvicorn running on http://[^:]+:(\d+)", line))
        )
        os.set_blocking(process.stderr.fileno(), False)
        yield Served(port, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


class Connection:
    """One kept-alive connection, reading just enough HTTP to count."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def post(self, path: str, body: dict) -> tuple[int, bytes]:
        """Send a request; return the number of chunks and the last bytes of its answer."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
        self.writer.write(head.encode() + data)
        headers = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if found := re.search(rb"content-length: (\d+)", headers):
            return 1, await self.reader.readexactly(int(found.group(1)))
        chunks, last = 0, b""
        while size := int(await self.reader.readline(), 16):
            chunk = await self.reader.readexactly(size + 2)
            if chunk.startswith(b"data: {"):
                last = chunk
            chunks += 1
        await self.reader.readline()
        return chunks, last


async def stream(connection: Connection, number: int, tokens: int) -> tuple[int, int]:
    text = f"Question {number}: how does a river find its way to the sea?\n"
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    body = {"text": text, "stream": True, "sampling_params": sampling}
    chunks, last = await connection.post("/generate", body)
    answer = json.loads(last.removeprefix(b"data: "))
    return chunks, answer["meta_info"]["completion_tokens"]


async def throughput(served: Served, streams: int, rounds: int, tokens: int) -> tuple[float, float]:
    async def one(slot: int) -> tuple[int, int]:
        connection = Connection(served.port)
        await connection.open()
        await stream(connection, slot, 16)
        totals = [await stream(connection, slot * 1000 + k, tokens) for k in range(rounds)]
        return sum(c for c, _ in totals), sum(t for _, t in totals)

    began = time.perf_counter()
    results = await asyncio.gather(*(one(slot) for slot in range(streams)))
    seconds = time.perf_counter() - began
    return sum(t for _, t in results) / seconds, sum(c for c, _ in results) / seconds


def show_throughput(core: int) -> None:
    print("arm    | output tok/s | events/s | tok per server CPU s | wall s")
    for arm, flags in ARMS.items():
        with engine(flags, core) as served:
            before, began = served.cpu_s(), time.perf_counter()
            tok_s, events_s = asyncio.run(throughput(served, 16, 8, 256))
            cpu, wall = served.cpu_s() - before, time.perf_counter() - began
            per_cpu = tok_s * wall / cpu  # what a core of its own would give, neighbours aside
            print(f"{arm:6} | {tok_s:12.0f} | {events_s:8.0f} | {per_cpu:20.0f} | {wall:6.2f}")


async def many(served: Served, requests: int) -> None:
    """Short distinct requests, 16 at a time; print the resident memory every tenth."""
    done = 0
    began = time.perf_counter()

    async def worker(slot: int) -> None:
        nonlocal done
        connection = Connection(served.port)
        await connection.open()
        for number in range(slot, requests, 16):
            sampling = {"temperature": 0, "max_new_tokens": 4}
            await connection.post(
                "/generate", {"text": f"Item {number} of", "sampling_params": sampling}
            )
            done += 1
            if done % max(1, requests // 10) == 0:
                seconds = time.perf_counter() - began
                print(f"{done:8d} requests | {served.resident_mb():7.1f} MiB | {seconds:6.1f} s")

    await asyncio.gather(*(worker(slot) for slot in range(16)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("throughput", "memory"))
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[:-1]) or set(cores))
    if options.what == "throughput":
        show_throughput(cores[-1])
        return
    # A small pool: the prefix cache is full after a few thousand requests, then nothing may grow.
    with engine(["--max-total-tokens", "32768"], cores[-1]) as served:
        asyncio.run(many(served, options.requests))


if __name__ == "__main__":
    main()
