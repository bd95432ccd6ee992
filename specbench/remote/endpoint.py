"""Where an SSH alias leads, resolved by OpenSSH itself: ~/.ssh/config means the same here."""

import os
import subprocess
from pathlib import Path

import msgspec

from specbench.errors import HostError

CONFIG_VARIABLE = "SPECBENCH_SSH_CONFIG"
"""Names another file than ~/.ssh/config, as `ssh -F` does."""

_MAX_JUMPS = 8


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One machine as the SSH client sees it. `jump` is the machine to go through, or None.

    `key_name` is the name under which known_hosts files list it. `agent` is the socket of an agent
    that IdentityAgent names, None for that of the environment; `certificates` are CertificateFiles.
    """

    alias: str
    hostname: str
    port: int
    user: str
    key_name: str
    identities: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    use_agent: bool = True
    agent: str | None = None
    known_hosts: tuple[str, ...] = ()
    proxy_command: str | None = None
    jump: "Endpoint | None" = None

    def __str__(self) -> str:
        """Write it as one would on a command line."""
        return f"{self.user}@{self.hostname}:{self.port}"


def resolve(alias: str, *, user: str | None = None, port: int | None = None) -> Endpoint:
    """Ask `ssh -G` what an alias means: Include, Match, ProxyJump and defaults are its business.

    Raises HostError where ssh is not installed, or its configuration is broken.
    """
    return _resolve(alias, user, port, depth=0)


def _resolve(alias: str, user: str | None, port: int | None, *, depth: int) -> Endpoint:
    if depth > _MAX_JUMPS:
        raise HostError(f"ProxyJump of {alias!r} leads through more than {_MAX_JUMPS} hosts")
    if alias.startswith("-"):
        raise HostError(f"{alias!r} is no host name", hint="correct address in hosts.yaml")
    options = _ask_ssh(alias, user, port)

    def last(name: str, default: str = "") -> str:
        return options.get(name, [default])[-1]

    listed = " ".join([last("userknownhostsfile"), last("globalknownhostsfile")]).split()
    proxy_command = last("proxycommand", "none")
    hostname, number = last("hostname", alias), int(last("port", "22"))
    name = last("hostkeyalias") or hostname
    return Endpoint(
        alias=alias,
        hostname=hostname,
        port=number,
        user=last("user"),
        key_name=name if number == 22 or last("hostkeyalias") else f"[{name}]:{number}",
        identities=tuple(_existing(options.get("identityfile", []))),
        certificates=tuple(str(_path(text)) for text in options.get("certificatefile", [])),
        agent=_agent(last("identityagent")),
        use_agent=last("identitiesonly", "no") != "yes" and last("identityagent") != "none",
        known_hosts=tuple(_existing(listed)),
        proxy_command=None if proxy_command == "none" else proxy_command,
        jump=_jump(last("proxyjump", "none"), depth),
    )


def _ask_ssh(alias: str, user: str | None, port: int | None) -> dict[str, list[str]]:
    file = os.environ.get(CONFIG_VARIABLE)
    argv = ["ssh", *(["-F", file] if file else []), *(["-l", user] if user else [])]
    argv += [*(["-p", str(port)] if port else []), "-G", "--", alias]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise HostError(
            "the ssh program is not installed here: it reads ~/.ssh/config for specbench",
            hint="install the OpenSSH client",
        ) from None
    except subprocess.TimeoutExpired:
        raise HostError(f"ssh -G {alias} did not answer: a Match exec that hangs?") from None
    if done.returncode:
        complaint = done.stderr.strip().splitlines()[:1] or [f"exit status {done.returncode}"]
        raise HostError(f"ssh cannot make sense of {alias!r}: {complaint[0]}", where=file)
    options: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name.lower(), []).append(value)
    return options


def _jump(chain: str, depth: int) -> Endpoint | None:
    """Resolve `a,b,c` (through a, then b, then c); each may be [user@]host[:port]."""
    if chain in {"", "none"}:
        return None
    first, *later = chain.split(",")
    endpoint = _hop(first, depth)
    for hop in later:
        endpoint = msgspec.structs.replace(_hop(hop, depth), jump=endpoint)
    return endpoint


def _hop(text: str, depth: int) -> Endpoint:
    user, at, place = text.removeprefix("ssh://").rpartition("@")
    bracketed, _, after = place.partition("]")
    if place.startswith("["):
        host, port = bracketed[1:], after.removeprefix(":")
    else:
        host, _, port = place.partition(":")
    return _resolve(
        host, user if at else None, int(port) if port.isdigit() else None, depth=depth + 1
    )


def _agent(named: str) -> str | None:
    """Give the socket that IdentityAgent names; None where the environment is to be asked."""
    if named in {"", "none", "SSH_AUTH_SOCK", "$SSH_AUTH_SOCK"}:
        return None
    return os.environ.get(named[1:], "") if named.startswith("$") else str(_path(named))


def _path(text: str) -> Path:
    """Read a path of the configuration: `~` and `%d` are the home folder."""
    return Path(text.strip('"').replace("%d", str(Path.home()))).expanduser()


def _existing(paths: list[str]) -> list[str]:
    return [str(path) for text in paths if (path := _path(text)).is_file()]
