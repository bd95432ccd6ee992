"""What every launcher asks of a host: its own Python for a moment, the port, the stop."""

import json
import os
import time
from pathlib import Path
from typing import Any

from specbench.errors import HostError
from specbench.launchers import hostside
from specbench.launchers.command import Address, python_of
from specbench.launchers.gpus import list_gpus
from specbench.model.host import Host
from specbench.remote.shell import Shell

STATE_DIR = "~/.local/state/specbench"
PORT_FREE_S = 40.0
"""SGLang itself waits 30 s for a port of a server that was just killed (0.5.23)."""


def ask(shell: Shell, host: Host, request: dict[str, Any], *, timeout_s: float = 30.0) -> Any:
    """Run one verb of `hostside` with the host's Python and return its answer.

    The program and the request go through standard input: nothing is installed, and no secret
    stands in a process list.
    """
    program = Path(hostside.__file__).read_text("utf-8")
    call = f"\nmain(json.loads({json.dumps(json.dumps(request))}))\n"
    python = python_of(host)
    done = shell.run([python, "-I", "-S", "-"], input=program + call, timeout_s=timeout_s)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise HostError(
            f"{python} on host {host.name!r} gave no answer: {done.complaint}",
            where=shell.name,
            hint="python in hosts.yaml must name a Python 3.8 or later of that host",
        ) from None


def facts_of(shell: Shell, host: Host) -> dict[str, Any]:
    """Describe a machine and its GPUs by what stays the same between two launches."""
    described: dict[str, Any] = ask(shell, host, {"do": "facts"})
    gpus = list_gpus(shell)
    if gpus is None:
        return described
    return described | {
        "gpus": [gpu.name for gpu in gpus],
        "gpu_memory_mib": [gpu.memory_mib for gpu in gpus],
        "driver": sorted({gpu.driver for gpu in gpus}),
    }


def owner_of(host: Host) -> dict[str, Any] | None:
    """Name the process whose end must end the server: this one, if it runs on the same machine."""
    if not host.is_local:
        return None
    return {"pid": os.getpid(), "ticks": hostside.start_ticks(os.getpid())}


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
