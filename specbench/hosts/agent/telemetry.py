"""The part that runs on the host itself to tell, line by line, what it and its GPUs do.

This file is given to the host's Python as a program and leaves nothing behind there; it uses the
standard library only (Python 3.8 or later, Linux). Three kinds of lines come out:

    host CPUS LOAD_1MIN BUSY TOTAL MEM_AVAILABLE_KIB OWN
    nvidia CSV        as nvidia-smi writes it
    rocm JSON         as rocm-smi writes it, on one line

BUSY and TOTAL are clock ticks of all processors since boot (user, nice and system; and everything).
Interrupts count as neither busy nor anybody's: they belong to no process. OWN are the ticks of the
processes that are known: the server, specbench, and this program; it is `-` where the server's
processes are not known. A field that cannot be read is `-`.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any, Dict, Iterator  # noqa: UP035 - evaluated at run time, by Python 3.8 too

PROC = pathlib.Path("/proc")
RETRY_S = 5.0
ROCM_S = 2.0
ROCM_TIMEOUT_S = 20.0
SCAN_SHARE = 0.02
"""At most this share of one processor goes into looking for new processes."""

Json = Dict[str, Any]  # noqa: UP006 - as above
_writing = threading.Lock()


def main(request: Json) -> None:
    """Write lines until nobody reads them.

    `request` holds `interval_s`, `server` (the pid of the server's first process, or null), `own`
    (pids of specbench on this machine), `nvidia` and `rocm` (arguments for either tool).
    """
    threading.Thread(target=_watch_gpus, args=(request,), daemon=True).start()
    own = Family(request["server"], [*request["own"], os.getpid()])
    while True:
        say("host", *host_fields(), own.ticks() if request["server"] else "-")
        time.sleep(float(request["interval_s"]))


def say(*words: Any) -> None:
    """Write one line at once; end where the reader has gone."""
    with _writing:
        try:
            sys.stdout.write(" ".join(map(str, words)) + "\n")
            sys.stdout.flush()
        except OSError:
            os._exit(0)


def host_fields() -> list[Any]:
    """Read processors, load, busy and total ticks, and available memory."""
    load = _text("/proc/loadavg").split()
    ticks = [int(word) for word in _text("/proc/stat").partition("\n")[0].split()[1:9]]
    available = [
        line.split()[1]
        for line in _text("/proc/meminfo").splitlines()
        if line.startswith("MemAvailable:")
    ]
    return [
        os.cpu_count() or "-",
        load[0] if load else "-",
        sum(ticks[:3]) if ticks else "-",
        sum(ticks) if ticks else "-",
        available[0] if available else "-",
    ]


class Family:
    """The processes of a server and of specbench, and the processor time that they have used.

    Everything below one of the roots belongs to it, and everything in the server's session: a
    process that has lost its parent stays there. The time of a child that has ended is in its
    parent's. What leaves the session and has lost its parent is not seen.
    """

    def __init__(self, server: int | None, own: list[int]) -> None:
        self._server = server
        self._roots = {pid for pid in (server, *own) if pid}
        self._members: list[int] = []
        self._next_scan = 0.0

    def ticks(self) -> int:
        """Sum the processor time of all of them, in clock ticks."""
        began = time.monotonic()
        if began >= self._next_scan:
            total = self._scan()
            cost = time.monotonic() - began
            self._next_scan = began + cost / SCAN_SHARE
            return total
        return sum(_ticks(fields) for fields in map(_stat, self._members) if fields)

    def _scan(self) -> int:
        stats = {pid: fields for pid in _pids() for fields in [_stat(pid)] if fields}
        leader = stats.get(self._server or 0)
        session = leader[3] if leader else None
        children: dict[int, list[int]] = {}
        for pid, fields in stats.items():
            children.setdefault(int(fields[1]), []).append(pid)
        found = {pid for pid, fields in stats.items() if fields[3] == session}
        queue = [*(self._roots & stats.keys()), *found]
        while queue:
            pid = queue.pop()
            found.add(pid)
            queue.extend(child for child in children.get(pid, []) if child not in found)
        self._members = sorted(found)
        return sum(_ticks(stats[pid]) for pid in found)


def _watch_gpus(request: Json) -> None:
    """Follow nvidia-smi, or ask rocm-smi again and again where there is no nvidia-smi."""
    while True:
        try:
            for line in _nvidia_lines(request["nvidia"]):
                say("nvidia", line)
        except FileNotFoundError:
            break
        time.sleep(RETRY_S)
    while True:
        try:
            answer = _rocm(request["rocm"])
        except FileNotFoundError:
            return
        if answer:
            say("rocm", answer)
        time.sleep(ROCM_S)


def _nvidia_lines(arguments: list[str]) -> Iterator[str]:
    tool = subprocess.Popen(
        ["nvidia-smi", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    with tool:
        assert tool.stdout is not None  # noqa: S101 - it was asked for as a pipe
        for line in tool.stdout:
            yield line.strip()


def _rocm(arguments: list[str]) -> str | None:
    try:
        done = subprocess.run(
            ["rocm-smi", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ROCM_TIMEOUT_S,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace")
        return json.dumps(json.loads(text[text.find("{") :]))  # warnings may stand before it
    except (subprocess.TimeoutExpired, ValueError):
        return None


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third (state) on; the name may hold spaces and brackets."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields if len(fields) > 14 else None


def _ticks(fields: list[str]) -> int:
    """User and system time, of the process and of its children that have ended."""
    return sum(int(field) for field in fields[11:15])


def _text(path: str) -> str:
    try:
        return pathlib.Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
