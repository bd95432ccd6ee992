"""Machines of hosts.yaml."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

LauncherName = Literal[
    "process",
    "systemd",
    "docker",
    "slurm",
    "attach",
]


class LauncherTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest of the program must know of one way to start a service.

    `starts`: specbench starts the server, and stops it. `needs`: a key that the host must have,
    with an example. `in_container`: the host's own files and programs are not the server's.
    `absolute_program`: the program of the command needs its whole path. `poll_s`: the pause between
    two looks; longer where a look runs a command on the host. `missing`: why it cannot be used, and
    what to do instead.
    """

    starts: bool = True
    needs: tuple[str, str] | None = None
    in_container: bool = False
    absolute_program: bool = False
    poll_s: float = 0.5
    missing: tuple[str, str] | None = None


LAUNCHER_TRAITS: dict[LauncherName, LauncherTraits] = {
    "process": LauncherTraits(poll_s=0.25),
    "systemd": LauncherTraits(needs=("unit", "server-bench.service"), absolute_program=True),
    "docker": LauncherTraits(needs=("image", "ORGANISATION/SERVER:TAG"), in_container=True),
    "attach": LauncherTraits(starts=False, poll_s=0.25),
    "slurm": LauncherTraits(
        starts=False,
        missing=(
            "specbench submits no Slurm jobs",
            "start the server in a job of your own, and measure it with launcher: attach",
        ),
    ),
}
Port = Annotated[int, Meta(ge=1, le=65535)]
Seconds = Annotated[float, Meta(gt=0.0, le=7 * 86400.0)]
HIDDEN = "***"

_SECRET = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|access[_-]?key|token|password|passwd|passphrase|secret|credentials?)"
    r"(?:$|[_-](?!ids?$|map|worker))",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a key, flag or variable of this name holds something that must not be shown."""
    return bool(_SECRET.search(name))


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a service listens, as seen on its host."""

    host: str
    port: int


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: how to reach it, how services are started there, where they answer.

    `address` is a DNS name, an IP address or an alias of ~/.ssh/config; None means this machine.
    `url` is the service's URL as seen on the host. `drive_from` says where load comes from.
    `api_key` is the key itself, so write down `redacted()` only; `api_key_env` names the variable
    that it came from, if it came from one. `nodes` names the hosts of the ranks 1, 2, ... of a
    server that this host is rank 0 of, and `node_hosts` holds them; the ranks meet at
    `dist_init_addr` (ADDRESS:PORT; by default this host's address and port 20000).
    """

    name: str
    address: str | None = None
    user: str | None = None
    port: Port | None = None
    launcher: LauncherName = "process"
    unit: str | None = None
    user_unit: bool = False
    image: str | None = None
    container: dict[str, str | tuple[str, ...]] = {}
    python: str = "python3"
    command: tuple[str, ...] = ()
    workdir: str | None = None
    env: dict[str, str] = {}
    gpus: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    url: str = "http://127.0.0.1:30000"
    drive_from: Literal["host", "here"] = "here"
    load_timeout_s: Seconds = 1200.0
    stop_timeout_s: Seconds = 60.0
    nodes: tuple[str, ...] = ()
    node_hosts: "tuple[Host, ...]" = ()
    dist_init_addr: str | None = None
    files: tuple[str, ...] = ()
    api_key: str | None = None
    api_key_env: str | None = None
    sudo: bool = False
    gpu: str | None = None
    usd_per_gpu_hour: Annotated[float, Meta(ge=0.0, le=1e6)] | None = None

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine, reached without SSH."""
        return self.address is None

    def redacted(self) -> "Host":
        """Return the host as it may be written down: every secret is hidden."""
        env = {k: HIDDEN if is_secret_name(k) else v for k, v in self.env.items()}
        api_key = HIDDEN if self.api_key is not None else None
        nodes = tuple(node.redacted() for node in self.node_hosts)
        return msgspec.structs.replace(self, api_key=api_key, env=env, node_hosts=nodes)

    def __repr__(self) -> str:
        shown = self.redacted()
        fields = ", ".join(f"{name}={getattr(shown, name)!r}" for name in self.__struct_fields__)
        return f"Host({fields})"
