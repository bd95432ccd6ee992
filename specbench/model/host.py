"""Machines of hosts.yaml."""

from typing import Literal

import msgspec

LauncherName = Literal["process", "systemd", "docker", "slurm", "attach"]


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: how to reach it, how services are started there, where they answer.

    `address` is a DNS name, an IP address or an alias of ~/.ssh/config; None means this machine.
    `url` is the service's URL as seen on the host. `drive_from` says where load comes from.
    """

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    launcher: LauncherName = "process"
    unit: str | None = None
    user_unit: bool = False
    image: str | None = None
    container: dict[str, str | tuple[str, ...]] = {}
    python: str = "python3"
    command: tuple[str, ...] = ()
    workdir: str | None = None
    env: dict[str, str] = {}
    gpus: int | None = None
    url: str = "http://127.0.0.1:30000"
    drive_from: Literal["host", "here"] = "here"
    load_timeout_s: float = 1200.0
    stop_timeout_s: float = 60.0
    nodes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    api_key: str | None = None
    sudo: bool = False
    gpu: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine, reached without SSH."""
        return self.address is None
