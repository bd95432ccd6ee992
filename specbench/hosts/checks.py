"""What is wrong with a host, found in seconds and before anything is started."""

import posixpath
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from specbench.backends.products import BACKENDS, DEFAULT, contamination_of
from specbench.config.files import hash_files
from specbench.errors import HostError, InputError, SpecbenchError
from specbench.hosts import deploy
from specbench.hosts.command import Launch, address_of, python_of, render
from specbench.hosts.gpus import describe, list_gpus, list_processes
from specbench.hosts.lock import HostLock
from specbench.hosts.state import STATE_DIR, ask, holders_of, left_running, require_free_port
from specbench.model.host import LAUNCHER_TRAITS, Host
from specbench.model.plan import LaunchSpec
from specbench.remote.shell import FileMissing, Shell

State = Literal["ok", "warning", "wrong", "unknown"]

OLDEST_PYTHON = (3, 8)
CLOCK_S = 2.0
FREE_MIB = 1024
PROBE_SPEC = LaunchSpec(
    fingerprint="check", algorithm="ar", speculative=False, model_path="-", served_name=""
)


class HostCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at: `found` in one sentence, `hint` what to do where it is not ok."""

    name: str
    state: State
    found: str
    hint: str = ""


def wrong(name: str, error: SpecbenchError) -> HostCheck:
    """Make a check of the error that it met."""
    return HostCheck(name=name, state="wrong", found=error.what, hint=error.hint or "")


Check = Callable[[Host, Shell], Iterator[HostCheck]]


def check_host(host: Host, shell: Shell, more: tuple[Check, ...] = ()) -> Iterator[HostCheck]:
    """Look at everything that a launch on this host will need; start and change nothing.

    Where the host cannot even be reached the rest is left out. `more` are the launcher's checks.
    """
    try:
        began = time.monotonic()
        shell.run(["true"])
    except HostError as error:
        yield wrong("connection", error)
        return
    elapsed_ms = 1000 * (time.monotonic() - began)
    yield HostCheck(name="connection", state="ok", found=f"reached in {elapsed_ms:.0f} ms")
    for check in (*_CHECKS, *more):
        try:
            yield from check(host, shell)
        except (HostError, InputError) as error:
            yield wrong(check.__name__.removeprefix("check_"), error)


def check_python(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the host's Python runs, and is not too old for what specbench runs there."""
    answer = ask(shell, host, {"do": "python"})
    version = str(answer["version"])
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_PYTHON:
        yield HostCheck(
            name="python",
            state="wrong",
            found=f"{python_of(host)} is Python {version}",
            hint="python in hosts.yaml must name Python 3.8 or later",
        )
    else:
        yield HostCheck(name="python", state="ok", found=f"Python {version}")


def check_command(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the launch command exists, and its module can be found."""
    traits = LAUNCHER_TRAITS[host.launcher]
    if traits.in_container or not traits.starts:
        return
    launch = render(host, PROBE_SPEC)
    others = _other_products(host, shell)
    if others and not _has_module(shell, launch):
        yield HostCheck(name="command", state="ok", found=f"{', '.join(others)} is installed")
        return
    program = launch.argv[0]
    folders = ":".join(launch.path)
    script = 'PATH="$PATH:$2" command -v -- "$1"'
    if not shell.run(["sh", "-c", script, "sh", program, folders]).ok:
        yield HostCheck(
            name="command",
            state="wrong",
            found=f"there is no program {program!r}",
            hint="correct command or python in hosts.yaml; an absolute path is safest",
        )
        return
    if traits.absolute_program and not posixpath.isabs(program):
        yield HostCheck(
            name="command",
            state="wrong",
            found=f"{program!r} is no absolute path, as {host.launcher} wants it",
            hint=f"write {shell.run(['sh', '-c', script, 'sh', program, '']).stdout.strip()!r}",
        )
        return
    yield from _check_module(host, shell, launch)


def _has_module(shell: Shell, launch: Launch) -> bool:
    """Whether the Python of a launch has the package that it runs; true for other commands."""
    if launch.argv[1:2] != ("-m",):
        return True
    package = launch.argv[2].partition(".")[0]
    script = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    return shell.run([launch.argv[0], "-c", script, package]).ok


def _other_products(host: Host, shell: Shell) -> list[str]:
    """Name the products, beside the default one, that can be started there by a matrix."""
    if host.command:
        return []
    found = []
    for name, backend in BACKENDS.items():
        if name == DEFAULT or backend.command(PROBE_SPEC, address_of(host), ()) is None:
            continue
        launch = render(host, msgspec.structs.replace(PROBE_SPEC, engine=name))
        there = shell.run(["sh", "-c", 'command -v -- "$1"', "sh", launch.argv[0]]).ok
        if there and _has_module(shell, launch):
            found.append(backend.title)
    return found


def _check_module(host: Host, shell: Shell, launch: Launch) -> Iterator[HostCheck]:
    if launch.argv[1:2] != ("-m",):
        yield HostCheck(name="command", state="ok", found=f"{launch.argv[0]} is there")
        return
    package = launch.argv[2].partition(".")[0]
    if _has_module(shell, launch):
        yield HostCheck(name="command", state="ok", found=f"{package} is installed")
    else:
        yield HostCheck(
            name="command",
            state="wrong" if host.command or host.address else "warning",
            found=f"{launch.argv[0]} has no package {package!r}",
            hint="python in hosts.yaml must be that of the environment with the server in it; "
            "a matrix may also bring its own command",
        )


def check_port(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the port is free; for an attached server, that somebody answers there."""
    address = address_of(host)
    if not LAUNCHER_TRAITS[host.launcher].starts:
        there = bool(holders_of(shell, host, address))
        yield HostCheck(
            name="port",
            state="ok" if there else "unknown",
            found=f"port {address.port} is {'held' if there else 'held by nobody who can be seen'}",
        )
        return
    pid = left_running(shell, host)
    if pid is not None:
        yield HostCheck(
            name="port",
            state="warning",
            found=f"a server of an earlier run is up on port {address.port} (pid {pid})",
            hint="the next run replaces it; specbench hosts restore stops it",
        )
        return
    require_free_port(shell, host, address)
    yield HostCheck(name="port", state="ok", found=f"port {address.port} is free")


def check_folders(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the state folder can be written, disks have room, the working folder exists."""
    yield _check_same_folder(shell)
    if host.workdir and not shell.exists(host.workdir):
        yield HostCheck(
            name="workdir",
            state="wrong",
            found=f"workdir {host.workdir} does not exist",
            hint="make it, or correct workdir in hosts.yaml",
        )
    for folder in ("/tmp", "."):  # noqa: S108 - where servers write
        free = _free_mib(shell, folder)
        if free is not None and free < FREE_MIB:
            yield HostCheck(
                name="disk",
                state="warning" if free > 64 else "wrong",
                found=f"{free} MiB are free in {folder if folder != '.' else 'the home folder'}",
                hint="a server that cannot write its caches fails late: make room",
            )


def _check_same_folder(shell: Shell) -> HostCheck:
    """Write a file as files are written, and let a command of the host read it."""
    path = f"{STATE_DIR}/.probe-{secrets.token_hex(4)}"
    content = secrets.token_hex(2048)
    try:
        shell.write_file(path, content.encode())
        seen = shell.run(["sh", "-c", 'cat -- "$HOME/$1"', "sh", path.removeprefix("~/")])
        shell.remove(path)
    except FileMissing:
        seen = None  # its folder was made by a command, and is not there for files
    if seen is not None and seen.stdout == content:
        return HostCheck(name="folders", state="ok", found=f"{STATE_DIR} can be written")
    return HostCheck(
        name="folders",
        state="wrong",
        found=f"commands and file transfer (SFTP) of this host do not see the same {STATE_DIR}",
        hint="let SFTP see the home folder of the login: no ChrootDirectory for it in sshd_config, "
        "no other HOME set by login scripts",
    )


def _free_mib(shell: Shell, folder: str) -> int | None:
    lines = shell.run(["df", "-Pm", "--", folder]).stdout.splitlines()
    fields = lines[-1].split() if len(lines) > 1 else []
    return int(fields[3]) if len(fields) > 3 and fields[3].isdigit() else None


def check_gpus(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that there are as many GPUs as hosts.yaml says, and nobody uses them."""
    gpus = list_gpus(shell)
    if gpus is None:
        state: State = "wrong" if host.gpus else "ok"
        found = "nvidia-smi does not answer: GPUs can be neither checked nor sampled"
        hint = f"hosts.yaml says gpus: {host.gpus}; install the driver's tools, or set gpus: 0"
        yield HostCheck(name="gpus", state=state, found=found, hint=hint if host.gpus else "")
        return
    names = ", ".join(sorted({gpu.name for gpu in gpus}))
    if host.gpus is not None and len(gpus) != host.gpus:
        yield HostCheck(
            name="gpus",
            state="wrong",
            found=f"{len(gpus)} GPUs ({names}), hosts.yaml says {host.gpus}",
            hint="correct gpus, or see why one is missing (dmesg, nvidia-smi)",
        )
    else:
        yield HostCheck(name="gpus", state="ok", found=f"{len(gpus)} x {names}")
    for text in describe(list_processes(shell)):
        hint = "wait for it: what is measured beside it is flagged foreign_load"
        yield HostCheck(name="gpu_memory", state="warning", found=text, hint=hint)


def check_clock(_: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the clocks agree, so that logs can be read beside the recording."""
    before = time.time()
    theirs = shell.run(["date", "+%s.%N"]).stdout.strip()
    after = time.time()
    try:
        offset = float(theirs) - (before + after) / 2
    except ValueError:
        return
    apart = abs(offset) > CLOCK_S + (after - before)
    yield HostCheck(
        name="clock",
        state="warning" if apart else "ok",
        found=f"its clock is {offset:+.1f} s from this machine's",
        hint="durations are not affected; set up NTP so that logs match" if apart else "",
    )


def check_load(_: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that nobody else keeps the processors busy."""
    load = shell.run(["cat", "/proc/loadavg"]).stdout.split()
    cores = shell.run(["nproc"]).stdout.strip()
    if not load or not cores.isdigit():
        return
    busy = float(load[0]) > int(cores)
    yield HostCheck(
        name="load",
        state="warning" if busy else "ok",
        found=f"load {load[0]} on {cores} processors",
        hint="something else runs here: figures will be noisy" if busy else "",
    )


def check_lock(_: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that nobody else is measuring."""
    lock = HostLock(shell)
    holder = lock.holder()
    if holder is not None and not holder.is_this_process:
        yield HostCheck(
            name="lock",
            state="wrong",
            found=f"{holder.user}@{holder.machine} has it for {holder.age}: {holder.purpose}",
            hint="wait, or ask; if that run is dead: specbench hosts restore --break-lock",
        )
    elif holder is None and lock.exists():
        yield HostCheck(
            name="lock",
            state="wrong",
            found="there is a lock that cannot be read",
            hint="if nobody measures here: specbench hosts restore --break-lock",
        )
    else:
        yield HostCheck(name="lock", state="ok", found="nobody else measures here")


def check_environment(host: Host, _: Shell) -> Iterator[HostCheck]:
    """Check that nothing in hosts.yaml falsifies what is measured."""
    for finding in contamination_of(host.env):
        yield HostCheck(
            name="environment",
            state="wrong",
            found=finding.explanation,
            hint="take it out of env in hosts.yaml",
        )


def check_files(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that files: is well written, and that no file of an earlier run is left deployed."""
    hash_files(host.files)
    if shell.exists(deploy.RECORD):
        yield HostCheck(
            name="files",
            state="wrong",
            found="files of an earlier run are still deployed",
            hint="specbench hosts restore puts the originals back",
        )


def check_forwarding(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that a tunnel can be opened, where load comes through one."""
    if host.address is None or host.drive_from != "here":
        return
    shell.check_forwarding()
    yield HostCheck(name="forwarding", state="ok", found="tunnels are allowed")


_CHECKS: tuple[Check, ...] = (
    check_python,
    check_command,
    check_port,
    check_folders,
    check_gpus,
    check_clock,
    check_load,
    check_lock,
    check_environment,
    check_files,
    check_forwarding,
)
