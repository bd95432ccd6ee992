"""From a host and a launch specification to the argument list and environment. Pure."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from specbench.backends.products import backend_for
from specbench.errors import InputError
from specbench.model.host import HIDDEN, Address, Host, is_secret_name
from specbench.model.plan import LaunchSpec

DEFAULT_PYTHON = "python3"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered launch of an engine. `path` lists folders appended to PATH."""

    argv: tuple[str, ...]
    env: dict[str, str]
    address: Address
    workdir: str | None = None
    path: tuple[str, ...] = ()
    engine: str = ""

    def shown(self) -> dict[str, object]:
        """Give the launch as it may be written down: values of secrets are hidden."""
        return {
            "argv": hide_arguments(self.argv),
            "env": hide_environment(self.env),
            "workdir": self.workdir,
        }


def render(host: Host, spec: LaunchSpec) -> Launch:
    """Write the launch of a specification on a host. Raises InputError for an unusable url."""
    address = address_of(host)
    backend = backend_for(spec.engine)
    python = python_of(host)
    head = [
        word.replace("{python}", python) for word in spec.command or host.command or backend.head
    ]
    argv = backend.command(spec, address, head)
    if argv is None:
        raise InputError(
            f"a server of engine {backend.name!r} is never started by specbench",
            where=f"host {host.name!r}",
            hint="launcher: attach measures one that runs already",
        )
    return Launch(
        argv=argv,
        env={**backend.variables, **host.env, **dict(spec.env)},
        address=address,
        workdir=host.workdir,
        path=(str(Path(sys.executable).parent),) if host.is_local else (),
        engine=spec.engine,
    )


def python_of(host: Host) -> str:
    """Name the host's Python: on this machine, unless another is named, the one that runs now."""
    return sys.executable if host.is_local and host.python == DEFAULT_PYTHON else host.python


def address_of(host: Host) -> Address:
    """Read the listening address out of the host's url."""
    parts = urlsplit(host.url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port:
        raise InputError(
            f"url {host.url!r} of host {host.name!r} names no host and port",
            hint="write it like http://127.0.0.1:30000",
        )
    return Address(host=parts.hostname, port=port)


def hide_arguments(argv: tuple[str, ...]) -> list[str]:
    """Replace the values of secret flags."""
    shown: list[str] = []
    hide_next = False
    for word in argv:
        name, equals, _ = word.partition("=")
        secret = name.startswith("--") and is_secret_name(name)
        if secret and equals:
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(HIDDEN if hide_next else word)
        hide_next = secret and not equals
    return shown


def hide_environment(env: dict[str, str]) -> dict[str, str]:
    """Replace the values of variables whose names speak of secrets."""
    return {name: HIDDEN if is_secret_name(name) else value for name, value in env.items()}
