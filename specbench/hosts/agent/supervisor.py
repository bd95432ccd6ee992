"""The part that runs on the host itself: start a server under a supervisor, stop it, look at it.

This file is sent to the host's Python over standard input and leaves nothing behind there; it uses
the standard library only (Python 3.8 or later, Linux). One JSON request goes in, one JSON answer
comes out. Secrets travel in the request, never in an argument list.

A supervisor is one small process that owns one server: it keeps the exit status, kills the whole
process group and every descendant when the server ends or is stopped, and stops the server when its
owner (specbench on the same machine) is gone without having let go of it, however that ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict  # noqa: UP035 - see Json

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TICK_S = 0.05
OWNER_CHECK_MS = 500
PROC = pathlib.Path("/proc")
Json = Dict[str, Any]  # noqa: UP006 - evaluated at run time, by Python 3.8 too


def main(request: Json) -> None:
    """Answer one request on standard output."""
    verbs = {
        "start": start,
        "stop": stop,
        "look": look,
        "port": port,
        "python": python,
        "facts": facts,
    }
    print(json.dumps(verbs[request["do"]](request)), flush=True)  # noqa: T201 - the answer


def python(request: Json) -> Json:
    """Say which Python this is, and what the host calls itself."""
    del request
    return {"version": sys.version.split()[0], "executable": sys.executable, "boot": boot_id()}


def work(request: Json) -> Json:
    """Sum the work of a process and its descendants, or null where there is none."""
    pid = request.get("pid")
    if not pid or start_ticks(int(pid)) is None:
        return {"work": None}
    return {"work": sum(_work(each) for each in [int(pid), *descendants(int(pid))])}


def facts(request: Json) -> Json:
    """Describe the machine, by what stays the same between two launches."""
    del request
    system = os.uname()
    models = _values("/proc/cpuinfo", "model name")
    memory = _values("/proc/meminfo", "MemTotal")
    pretty = _values("/etc/os-release", "PRETTY_NAME", "=")
    return {
        "hostname": system.nodename,
        "kernel": system.release,
        "machine": system.machine,
        "os": pretty[0].strip('"') if pretty else "",
        "cpu": models[0] if models else "",
        "cpus": os.cpu_count(),
        "memory_gib": round(int(memory[0].split()[0]) / 2**20) if memory else None,
        "python": sys.version.split()[0],
    }


def _values(path: str, name: str, separator: str = ":") -> list[str]:
    with contextlib.suppress(OSError):
        lines = pathlib.Path(path).read_text("utf-8", "replace").splitlines()
        pairs = (line.partition(separator) for line in lines)
        return [value.strip() for key, _, value in pairs if key.strip() == name]
    return []


def start(request: Json) -> Json:
    """Start `argv` under a supervisor of its own; return its state, or {"error": reason}."""
    state_path = pathlib.Path(request["state"]).expanduser()
    log_path = pathlib.Path(request["log"]).expanduser()
    try:
        for path in (state_path, log_path):
            path.parent.mkdir(parents=True, exist_ok=True)
        log_path.touch()
    except OSError as error:
        return {"error": f"{error.filename}: {error.strerror}"}
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        return dict(json.loads(text)) if text else {"error": "the supervisor died at once"}
    os.close(reader)
    try:
        _become_daemon(keep=writer)
        _supervise(request, state_path, log_path, writer)
    finally:
        os._exit(0)


def stop(request: Json) -> Json:
    """Ask the supervisor to stop its server; after `wait_s` kill both. Idempotent."""
    state = _read_state(request)
    if not _alive(state, "supervisor"):
        if _alive(state, "pid"):
            _kill_tree(int(state["pid"]))
        return {**_read_state(request), "was_running": False}
    supervisor = int(state["supervisor"])
    os.kill(supervisor, signal.SIGTERM)
    deadline = time.monotonic() + float(request["wait_s"])
    while _alive(state, "supervisor") and time.monotonic() < deadline:
        time.sleep(TICK_S)
    if _alive(state, "supervisor"):
        for pid in [*descendants(supervisor), supervisor]:
            _kill(pid, signal.SIGKILL)
    return {**_read_state(request), "was_running": True}


def look(request: Json) -> Json:
    """Return the state, whether server and supervisor live, and the work done so far.

    `work` sums CPU seconds and megabytes read over the server's processes: it stands still in a
    server that is stuck, and grows in one that is slow. `listens` says whether one of them holds
    the port, or is null where nobody can be seen to hold it.
    """
    state = _read_state(request)
    state["alive"] = _alive(state, "pid")
    state["supervised"] = _alive(state, "supervisor")
    state["owned"] = bool(state.get("owner")) and _owner_lives(state)
    if state["alive"]:
        root = int(state["supervisor"] if state["supervised"] else state["pid"])
        tree = [root, *descendants(root)]
        state["work"] = sum(_work(pid) for pid in tree)
        holders = [entry["pid"] for entry in _holders(int(request["port"]))]
        state["listens"] = bool(set(holders) & set(tree)) if holders else None
    return state


def port(request: Json) -> Json:
    """Say whether a port can be bound, and who holds it where that can be seen."""
    number = int(request["port"])
    family = socket.AF_INET6 if ":" in request["host"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((request["host"], number))
        except OSError as error:
            return {"free": False, "reason": error.strerror, "holders": _holders(number)}
    return {"free": True, "holders": []}


def _become_daemon(keep: int) -> None:
    """Leave the session, the terminal and every open file but one."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, keep)
    os.closerange(keep + 1, 256)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _supervise(
    request: Json, state_path: pathlib.Path, log_path: pathlib.Path, writer: int
) -> None:
    stopping: list[int] = []
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    os.set_blocking(wake_reader, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        server = _spawn(request, log_path)
        state = _new_state(server.pid, log_path, request)
        _write_state(state_path, state)
    except OSError as error:
        os.write(writer, json.dumps({"error": f"{error.filename}: {error.strerror}"}).encode())
        return
    os.write(writer, json.dumps(state).encode())
    os.close(writer)
    poll = select.poll()
    poll.register(wake_reader, select.POLLIN)
    while server.poll() is None and not stopping:
        if not _owner_lives({**request, **_read_state(request)}):  # let_go takes it out of there
            break
        poll.poll(OWNER_CHECK_MS)
        with contextlib.suppress(BlockingIOError):
            os.read(wake_reader, 4096)
    stopped = server.poll() is None
    if stopped:
        _stop(server, float(request["grace_s"]))
    _sweep(server.pid)
    state.update(ended=True, status=server.poll(), stopped=stopped)
    with contextlib.suppress(OSError):
        _write_state(state_path, state)


def _spawn(request: Json, log_path: pathlib.Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **request["env"]}
    for folder in request.get("path", []):
        environment["PATH"] = environment.get("PATH", os.defpath) + os.pathsep + folder
    with log_path.open("ab") as log:
        return subprocess.Popen(
            request["argv"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=pathlib.Path(request["cwd"]).expanduser() if request.get("cwd") else None,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509 - one thread
        )


def _stop(server: subprocess.Popen[bytes], grace_s: float) -> None:
    """SIGTERM to the server alone: SGLang takes one to its children for a crash of theirs."""
    _kill(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(grace_s)
    if server.poll() is None:
        _kill_tree(server.pid)
        server.wait()


def _sweep(group: int) -> None:
    """Kill whatever the server left behind: its group, and strays that left the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        strays = descendants(os.getpid())
        for pid in strays:
            _kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not strays:
            return
        time.sleep(TICK_S)


def _kill_tree(pid: int) -> None:
    for descendant in descendants(pid):
        _kill(descendant, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _owner_lives(request: Json) -> bool:
    owner = request.get("owner")
    return owner is None or start_ticks(int(owner["pid"])) == owner["ticks"]


def _new_state(pid: int, log_path: pathlib.Path, request: Json) -> Json:
    return {
        "pid": pid,
        "ticks": start_ticks(pid),
        "supervisor": os.getpid(),
        "supervisor_ticks": start_ticks(os.getpid()),
        "boot": boot_id(),
        "started_at": dt.datetime.now(dt.timezone.utc).isoformat(),  # noqa: UP017 - dt.UTC needs 3.11
        "log": str(log_path),
        "owner": request.get("owner"),
        "label": request.get("label", ""),
        "ended": False,
    }


def _read_state(request: Json) -> Json:
    try:
        return dict(json.loads(pathlib.Path(request["state"]).expanduser().read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def _write_state(path: pathlib.Path, state: Json) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(state), "utf-8")
    aside.chmod(0o600)
    aside.replace(path)


def _alive(state: Json, who: str) -> bool:
    """Whether a process of the state still runs: same boot, same pid, same start time."""
    pid = state.get(who)
    ticks = state.get("ticks" if who == "pid" else f"{who}_ticks")
    if not pid or not ticks or state.get("boot") != boot_id():
        return False
    return bool(start_ticks(int(pid)) == ticks)


def boot_id() -> str:
    """Name this boot of the kernel: a pid of an earlier one means nothing."""
    return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None when it is gone or a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in {"Z", "X"} else int(fields[19])


def descendants(root: int) -> list[int]:
    """All processes below `root`, nearest first; zombies are left out."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None and fields[0] not in {"Z", "X"}:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(0), [])
        found.extend(below)
        queue.extend(below)
    return found


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third (state) on; the name may hold spaces and brackets."""
    try:
        text = (PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _work(pid: int) -> float:
    fields = _stat(pid)
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    seconds = ticks / os.sysconf("SC_CLK_TCK")
    try:
        text = (PROC / str(pid) / "io").read_text("ascii")
    except OSError:
        return seconds
    read = sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("read_bytes"))
    return seconds + read / 1e6


def _holders(number: int) -> list[Json]:
    inodes: set[str] = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / "net" / table).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == number:
                    inodes.add(f"socket:[{fields[9]}]")
    return [_holder(pid) for pid in _pids() if inodes and _holds(pid, inodes)]


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _holds(pid: int, inodes: set[str]) -> bool:
    with contextlib.suppress(OSError):
        for handle in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(handle) in inodes:  # noqa: PTH115 - Path.readlink needs 3.9
                    return True
    return False


def _holder(pid: int) -> Json:
    found = {"pid": pid, "command": "", "cgroup": ""}
    for key, name in (("command", "cmdline"), ("cgroup", "cgroup")):
        with contextlib.suppress(OSError):
            text = (PROC / str(pid) / name).read_bytes().decode("utf-8", "replace")
            found[key] = text.replace("\0", " ").strip()[: 200 if key == "command" else 2000]
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
