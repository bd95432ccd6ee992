"""A server in a container, by the docker or podman command on its host."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.errors import HostError, InputError, LoadFailed
from specbench.hosts.checks import HostCheck
from specbench.hosts.command import Launch, address_of, render
from specbench.hosts.state import ask, holders_of, require_free_port
from specbench.launchers.context import LaunchContext, Place
from specbench.launchers.service import RunningService
from specbench.launchers.serving import serving, write_launch
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.model.service import END_UNKNOWN
from specbench.remote.shell import Completed, Shell

LABEL = "specbench"
RUN_S = 600.0
"""An image may have to be pulled first."""

_MERGED = ("sh", "-c", 'exec "$@" 2>&1', "sh")


class DockerLauncher:
    """Run the server in a container of the host's image, on the host's network.

    `container` of the host may hold: cli (docker or podman), mounts, devices, gpus, args (more
    arguments of `run`). The container is removed afterwards; one that carries no label of specbench
    is never touched.
    """

    def __init__(self, place: Place) -> None:
        host = place.host
        if not host.image:
            raise InputError(
                f"host {host.name!r} has launcher: docker and no image",
                hint="name one: image: ORGANISATION/SERVER:TAG",
            )
        self.host = host
        self._shell = place.shell
        self._place = place
        self._name = f"specbench-{address_of(host).port}"

    @contextlib.contextmanager
    def running(
        self, spec: LaunchSpec, block_dir: Path, context: LaunchContext
    ) -> Iterator[RunningService]:
        """Run the container; stop and remove it on leaving."""
        launch = render(self.host, spec)
        write_launch(self._place, block_dir, launch)
        self.restore()
        require_free_port(self._shell, self.host, launch.address)
        kept = False
        try:
            process = self._start(launch)
            with serving(self._place, spec, block_dir, process, context) as service:
                yield service
            kept = service.kept
        finally:
            if not kept:
                self._docker("rm", "--force", self._name)

    def restore(self) -> tuple[str, ...]:
        """Remove the container that an earlier, killed specbench left. Idempotent."""
        found = self._docker("inspect", "--format", "{{json .Config.Labels}}", self._name)
        if not found.ok:
            return ()
        if LABEL not in (json.loads(found.stdout) or {}):
            raise HostError(
                f"a container named {self._name} exists that specbench did not start",
                where=self._shell.name,
                hint="rename or remove it, or take another port in url",
            )
        self._docker("rm", "--force", self._name, timeout_s=60.0)
        return (f"removed the container {self._name}",)

    def python_path(self) -> str:
        """Return nothing: what a container has comes from its image."""
        return ""

    def close(self) -> None:
        """Give up the connection to the host."""
        self._shell.close()

    def _start(self, launch: Launch) -> "ContainerProcess":
        argv = run_arguments(self.host, launch, self._name)
        # An environment file keeps values out of the process list; it has no way to write a
        # line end.
        if any("\n" in value for value in launch.env.values()):
            raise InputError("a variable for a container must not hold a line end")
        variables = "".join(f"{name}={value}\n" for name, value in launch.env.items())
        started = self._shell.run(argv, input=variables, timeout_s=RUN_S)
        secrets = self._place.secrets
        if not started.ok:
            raise LoadFailed(
                f"the container could not be started: {secrets.hide(started.complaint)}",
                where=self._shell.name,
                hint="try the command of launch.json on the host; see specbench hosts check",
                pattern="cannot_start",
                evidence=secrets.hide(started.stderr).splitlines()[-12:],
            )
        return ContainerProcess(self._shell, self.host, self._name)

    def _docker(self, *words: str, timeout_s: float = 30.0) -> Completed:
        return self._shell.run([cli_of(self.host), *words], timeout_s=timeout_s)


class ContainerProcess:
    """The main process of a container."""

    def __init__(self, shell: Shell, host: Host, name: str) -> None:
        self._shell = shell
        self._host = host
        self._name = name
        self._finished = False
        self._first = self._state()
        self.log = ContainerLog(shell, cli_of(host), name)

    @property
    def pid(self) -> int | None:
        """The process id on the host."""
        return int(self._first.get("Pid") or 0) or None

    @property
    def started_at(self) -> str | None:
        """When the container started, UTC."""
        return str(self._first["StartedAt"]) if "StartedAt" in self._first else None

    def ended(self) -> int | None:
        """Return the exit status once it ended or was started again."""
        state = self._state()
        if state.get("Running") and state.get("StartedAt") == self._first.get("StartedAt"):
            return None
        if state.get("Running") or "ExitCode" not in state:
            return END_UNKNOWN  # another start of it, or the container is gone
        status = int(state["ExitCode"])
        return 128 - status if 128 < status < 160 else status

    def work(self) -> float | None:
        """Return CPU seconds and megabytes read, of the container's processes."""
        answer = ask(self._shell, self._host, {"do": "work", "pid": self.pid})
        return float(answer["work"]) if answer.get("work") is not None else None

    def listens(self) -> bool | None:
        """Return whether the port's holder runs in the container, where that can be seen."""
        holders = holders_of(self._shell, self._host, address_of(self._host))
        groups = [str(holder["cgroup"]) for holder in holders if holder.get("cgroup")]
        identity = self._inspect("{{.Id}}").strip()
        return any(identity in group for group in groups) if groups and identity else None

    def environment(self) -> Mapping[str, str]:
        """Return the variables of the container: those of its image are among them."""
        try:
            entries: Sequence[str] = json.loads(self._inspect("{{json .Config.Env}}")) or ()
        except ValueError:
            return {}
        pairs = (entry.partition("=") for entry in entries)
        return {name: value for name, _, value in pairs}

    def sees(self, folders: Sequence[str]) -> bool | None:
        """Unknown: packages are not put into containers."""
        del folders
        return None

    def stop(self, wait_s: float) -> None:
        """Stop the container: SIGTERM, wait, SIGKILL; a second call does nothing."""
        if not self._finished:
            words = ["stop", f"--time={int(wait_s)}", self._name]
            self._shell.run([cli_of(self._host), *words], timeout_s=wait_s + 30.0)
            self._finished = True

    def let_go(self) -> None:
        """Leave it to the container engine, which ends no container with specbench."""
        self._finished = True

    def _state(self) -> dict[str, Any]:
        try:
            state = json.loads(self._inspect("{{json .State}}"))
        except ValueError:
            return {}
        return state if isinstance(state, dict) else {}

    def _inspect(self, template: str) -> str:
        argv = [cli_of(self._host), "inspect", "--format", template, self._name]
        return self._shell.run(argv).stdout


class ContainerLog:
    """A container's output, read by the time stamps that the engine puts before each line."""

    def __init__(self, shell: Shell, cli: str, name: str) -> None:
        self._shell = shell
        self._cli = cli
        self._name = name
        self._cursor = ""
        self._at_cursor = 0

    def read(self) -> bytes:
        """Return the next lines; several may share one time stamp."""
        since = ["--since", self._cursor] if self._cursor else []
        argv = [*_MERGED, self._cli, "logs", "--timestamps", *since, self._name]
        lines = self._shell.run(argv).stdout.splitlines(keepends=True)
        skip, fresh = self._at_cursor if self._cursor else 0, []
        for line in lines:
            stamp, _, text = line.partition(" ")
            if stamp < self._cursor:
                continue
            if stamp == self._cursor:
                if skip:
                    skip -= 1
                    continue
                self._at_cursor += 1
            else:
                self._cursor, self._at_cursor = stamp, 1
            fresh.append(text)
        return "".join(fresh).encode()


def run_arguments(host: Host, launch: Launch, name: str) -> list[str]:
    """Write the command that runs the container. Pure; values of variables come by stdin."""

    def each(key: str) -> tuple[str, ...]:
        value = host.container.get(key, ())
        return (value,) if isinstance(value, str) else tuple(value)

    words = [cli_of(host), "run", "--detach", f"--name={name}", f"--label={LABEL}=1"]
    words += ["--network=host", "--restart=no", "--env-file=/dev/stdin"]
    words += [f"--volume={mount}" for mount in each("mounts")]
    words += [f"--device={device}" for device in each("devices")]
    words += [f"--gpus={gpus}" for gpus in each("gpus")]
    words += [f"--workdir={launch.workdir}"] if launch.workdir else []
    return [*words, *each("args"), str(host.image), *launch.argv]


def cli_of(host: Host) -> str:
    """Name the command: docker unless podman is asked for."""
    cli = host.container.get("cli", "docker")
    if cli not in {"docker", "podman"}:
        raise InputError(f"container.cli of host {host.name!r} is {cli!r}: docker or podman")
    return str(cli)


def check_docker(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the container engine answers, and has the image."""
    cli = cli_of(host)
    version = shell.run([cli, "version", "--format", "{{.Server.Version}}"])
    if version.status == 127:
        yield HostCheck(
            name="docker", state="wrong", found=f"there is no {cli} command", hint=f"install {cli}"
        )
        return
    if not version.ok:
        denied = re.search("permission denied", version.stderr, re.IGNORECASE)
        yield HostCheck(
            name="docker",
            state="wrong",
            found=f"{cli} does not answer: {version.complaint}",
            hint="add this user to the group docker" if denied else "is its daemon running?",
        )
        return
    yield HostCheck(name="docker", state="ok", found=f"{cli} {version.stdout.strip()}")
    if not host.image:
        yield HostCheck(
            name="image", state="wrong", found="launcher: docker has no image", hint="name one"
        )
    elif not shell.run([cli, "image", "inspect", host.image]).ok:
        yield HostCheck(
            name="image",
            state="warning",
            found=f"{host.image} is not on the host",
            hint=f"the first launch will pull it; sooner: {cli} pull {host.image}",
        )
    else:
        yield HostCheck(name="image", state="ok", found=f"{host.image} is there")
