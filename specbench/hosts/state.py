"""What every launcher asks of a host: its own Python for a moment, the port, the stop."""

import json
import os
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from specbench.errors import HostError
from specbench.hosts.agent import supervisor, wheel
from specbench.hosts.command import Launch, address_of, python_of
from specbench.hosts.gpus import describe_gpus
from specbench.model.host import LAUNCHER_TRAITS, Address, Host
from specbench.remote.shell import Shell

STATE_DIR = "~/.local/state/specbench"
PACKAGE_S = 60.0
PORT_FREE_S = 40.0
"""SGLang itself waits 30 s for a port of a server that was just killed (0.5.23)."""


def ask(shell: Shell, host: Host, request: dict[str, Any], *, timeout_s: float = 30.0) -> Any:
    """Run one verb of `supervisor` with the host's Python and return its answer.

    The program and the request go through standard input: nothing is installed, and no secret
    stands in a process list.
    """
    python = python_of(host)
    program = _program(supervisor, request)
    done = shell.run([python, "-I", "-S", "-"], input=program, timeout_s=timeout_s)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise HostError(
            f"{python} on host {host.name!r} gave no answer: {done.complaint}",
            where=shell.name,
            hint="python in hosts.yaml must name a Python 3.8 or later of that host",
        ) from None


def facts_of(shell: Shell, host: Host, launch: Launch | None) -> dict[str, Any]:
    """Describe a machine, its GPUs and the code to be served by what stays between two launches.

    What cannot be found out is left out. `launch` is None where the server is not specbench's.
    """
    described: dict[str, Any] = ask(shell, host, {"do": "facts"})
    gpus = describe_gpus(shell)
    if gpus is not None:
        described |= msgspec.to_builtins(gpus)
    if launch is not None and not LAUNCHER_TRAITS[host.launcher].in_container:
        described |= _package_facts(shell, launch)
    return described


def _package_facts(shell: Shell, launch: Launch) -> dict[str, Any]:
    """Ask the server's own Python, where the command is one with `-m`, for version and revision.

    The embedded engine is left out: it is this specbench, whose version stands in the manifest.
    """
    if launch.argv[1:2] != ("-m",) or launch.argv[2].startswith("specbench"):
        return {}
    program = _program(wheel, {"package": launch.argv[2].partition(".")[0]})
    env = {name: launch.env[name] for name in ("PYTHONPATH",) if name in launch.env}
    try:
        # -B: nothing is written into the user's environment.
        done = shell.run([launch.argv[0], "-B", "-"], input=program, env=env, timeout_s=PACKAGE_S)
        found = json.loads(done.stdout)
    except (HostError, ValueError):
        return {}
    return {"server_package": found} if found else {}


def _program(module: ModuleType, request: dict[str, Any]) -> str:
    """Write a program that answers a request, and nothing else, on standard output."""
    source = Path(str(module.__file__)).read_text("utf-8")
    return f"{source}\nmain(json.loads({json.dumps(json.dumps(request))}))\n"


def boot_id(shell: Shell) -> str | None:
    """Name the present boot of the host; None where it does not tell, or cannot be reached."""
    try:
        return shell.read_file("/proc/sys/kernel/random/boot_id").decode(errors="replace").strip()
    except HostError:
        return None


def owner_of(host: Host) -> dict[str, Any] | None:
    """Name the process whose end must end the server: this one, if it runs on the same machine."""
    if not host.is_local:
        return None
    return {"pid": os.getpid(), "ticks": supervisor.start_ticks(os.getpid())}


def require_free_port(shell: Shell, host: Host, address: Address) -> None:
    """Refuse a start that would end in a conflict after minutes of loading."""
    answer = _port(shell, host, address)
    if answer["free"]:
        return
    holders = ", ".join(f"pid {h['pid']} ({h['command']})" for h in answer["holders"])
    raise HostError(
        f"port {address.port} is in use by {holders or 'a process of another user'}: "
        f"{answer['reason']}",
        where=shell.name,
        hint="specbench did not start it and leaves it alone: stop it, take another port in url, "
        "or measure it with launcher: attach",
    )


def wait_until_free(shell: Shell, host: Host, address: Address) -> bool:
    """Wait until the port of a stopped server can be bound again; False when it never was."""
    deadline = time.monotonic() + PORT_FREE_S
    while not _port(shell, host, address)["free"]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def holders_of(shell: Shell, host: Host, address: Address) -> list[dict[str, Any]]:
    """List the processes that listen on a port, as far as this user can see them."""
    return list(_port(shell, host, address)["holders"])


def _port(shell: Shell, host: Host, address: Address) -> Any:
    return ask(shell, host, {"do": "port", "host": address.host, "port": address.port})


def left_running(shell: Shell, host: Host) -> int | None:
    """Return the pid of a server on the host's port that no living specbench holds, if one is."""
    address = address_of(host)
    request = {"do": "look", "state": state_path(address), "port": address.port}
    left = ask(shell, host, request)
    return int(left["pid"]) if left.get("alive") and not left.get("owned") else None


def state_path(address: Address) -> str:
    """Where a host keeps what is known of the server that was started for a port."""
    return f"{STATE_DIR}/service-{address.port}.json"


def log_path(address: Address) -> str:
    """Where a host keeps the log of the server that was started for a port."""
    return f"{STATE_DIR}/service-{address.port}.log"
