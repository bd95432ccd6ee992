"""Open an SSH connection: through jump hosts, with host keys checked, and every wait bounded."""

import base64
import contextlib
import hashlib
import logging
import socket
from collections.abc import Callable
from typing import Any

import paramiko

from specbench.errors import HostError
from specbench.remote import passwords
from specbench.remote.credentials import attempts
from specbench.remote.endpoint import Endpoint
from specbench.remote.known_hosts import Known, known_keys
from specbench.remote.shell import HostKeyRefused

SSH_PORT = 22
CONNECT_S = 10.0
BANNER_S = 15.0
AUTH_S = 20.0
KEEPALIVE_S = 15
DEAD_AFTER_MS = 30_000
"""A peer that acknowledges nothing for so long is gone. Keepalives alone do not notice: paramiko
sends them and never looks for the answer, so it is left to the kernel's TCP."""

NOTHING_TO_OFFER = "No authentication methods available"
"""What paramiko says, by no type of its own, where neither key nor agent was there to try."""

# What a connection's own thread has to say is said by the error that its user gets.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


def open_connection(endpoint: Endpoint, *, host: str) -> paramiko.SSHClient:
    """Connect and log in. `host` is the name in hosts.yaml, for messages and passwords.

    Raises HostError that says which hop failed, why, and what to do.
    """
    before = open_connection(endpoint.jump, host=host) if endpoint.jump else None
    try:
        client = _log_in(endpoint, before, host)
    except BaseException:
        if before is not None:
            before.close()
        raise
    if before is not None:
        # The last hop's transport must take the hops before it along when it ends.
        _close_together(client, before)
    return client


def _way_to(endpoint: Endpoint, before: paramiko.SSHClient | None) -> Any:
    """Return the channel or socket that leads to a machine."""
    if before is None:
        if endpoint.proxy_command is None:
            return _plain_socket(endpoint)
        tokens = {"%h": endpoint.hostname, "%p": str(endpoint.port), "%r": endpoint.user}
        command = endpoint.proxy_command
        for token, value in tokens.items():
            command = command.replace(token, value)
        return paramiko.ProxyCommand(command)
    transport = before.get_transport()
    if transport is None:
        raise HostError(f"the connection to {endpoint.alias} was lost on the way")
    target = (endpoint.hostname, endpoint.port)
    try:
        return transport.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=CONNECT_S)
    except (paramiko.SSHException, OSError) as error:
        raise HostError(
            f"the jump host cannot reach {endpoint.hostname}:{endpoint.port}: {error}",
            hint="see whether the machine is up, and ProxyJump in ~/.ssh/config",
        ) from error


def _plain_socket(endpoint: Endpoint) -> socket.socket:
    try:
        way = socket.create_connection((endpoint.hostname, endpoint.port), CONNECT_S)
    except TimeoutError as error:
        raise _unreachable(endpoint, f"no answer within {CONNECT_S:g} s") from error
    except OSError as error:
        raise _unreachable(endpoint, _reason(error)) from error
    way.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_MS)
    way.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return way


def _log_in(endpoint: Endpoint, before: paramiko.SSHClient | None, host: str) -> paramiko.SSHClient:
    known = known_keys(endpoint.key_name, endpoint.known_hosts)
    client = paramiko.SSHClient()
    _accept(client, endpoint, known)
    client.set_missing_host_key_policy(_RefuseUnknown(endpoint, known))
    notes: list[str] = []
    with contextlib.closing(attempts(endpoint, host, notes)) as offered:
        for attempt in offered:
            try:
                _connect(client, endpoint, _way_to(endpoint, before), attempt)
            except paramiko.AuthenticationException:
                client.close()
                continue
            except HostError:
                client.close()
                raise
            transport = client.get_transport()
            if transport is not None:
                transport.set_keepalive(KEEPALIVE_S)
            return client
    names = " or ".join(passwords.variables("SSH_PASSWORD", host))
    raise HostError(
        f"{endpoint} refused every key and password offered"
        + "".join(f"; {note}" for note in notes),
        where=host,
        hint="load the key into an agent, name it as IdentityFile in ~/.ssh/config, "
        f"or set {names}",
    )


def _accept(client: paramiko.SSHClient, endpoint: Endpoint, known: Known) -> None:
    """Give paramiko the accepted keys, under the name by which it looks for them."""
    plain = endpoint.port == SSH_PORT
    name = endpoint.hostname if plain else f"[{endpoint.hostname}]:{endpoint.port}"
    accepted = client.get_host_keys()
    revoked = {key.asbytes() for key in known.revoked}
    for key in known.keys:
        if key.asbytes() not in revoked and not _has(accepted, name, key.get_name()):
            accepted.add(name, key.get_name(), key)


def _has(accepted: paramiko.HostKeys, name: str, kind: str) -> bool:
    return kind in (accepted.lookup(name) or {})


def _connect(
    client: paramiko.SSHClient, endpoint: Endpoint, way: Any, credentials: dict[str, Any]
) -> None:
    try:
        client.connect(
            endpoint.hostname,
            port=endpoint.port,
            username=endpoint.user,
            sock=way,
            timeout=CONNECT_S,
            banner_timeout=BANNER_S,
            auth_timeout=AUTH_S,
            channel_timeout=CONNECT_S,
            look_for_keys=False,
            **credentials,
        )
    except paramiko.BadHostKeyException as error:
        raise HostKeyRefused(
            f"the host key of {endpoint.key_name} has changed: "
            f"known {fingerprint(error.expected_key)}, offered {fingerprint(error.key)}",
            hint="a reinstalled machine, or someone in between. If you know why, remove the old "
            f"key: ssh-keygen -R '{endpoint.key_name}'",
        ) from error
    except paramiko.AuthenticationException:
        raise
    except TimeoutError as error:
        raise _unreachable(endpoint, f"no answer within {CONNECT_S:g} s") from error
    except paramiko.SSHException as error:
        if str(error) == NOTHING_TO_OFFER:
            raise paramiko.AuthenticationException(str(error)) from error
        raise _unreachable(endpoint, str(error)) from error
    except (OSError, EOFError) as error:
        raise _unreachable(endpoint, _reason(error)) from error


class _RefuseUnknown(paramiko.MissingHostKeyPolicy):
    """Refuse a host whose key nobody has accepted yet, and say how to accept it."""

    def __init__(self, endpoint: Endpoint, known: Known) -> None:
        self._endpoint = endpoint
        self._known = known

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Refuse. Raises HostKeyRefused."""
        del client, hostname
        if key.asbytes() in {each.asbytes() for each in self._known.revoked}:
            raise HostKeyRefused(
                f"the host key of {self._endpoint.key_name} is marked @revoked: {fingerprint(key)}",
                hint="somebody may be in between: ask who runs the machine for its new key",
            )
        raise HostKeyRefused(
            f"the host key of {self._endpoint.key_name} is not known: "
            f"{key.get_name()} {fingerprint(key)}"
            + "".join(f"; {line}" for line in self._known.unusable),
            hint=f"compare it with `ssh-keygen -lf` on the machine; then accept it: "
            f"ssh {self._endpoint.alias}",
        )


def fingerprint(key: paramiko.PKey) -> str:
    """Write a key's fingerprint as OpenSSH does."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _unreachable(endpoint: Endpoint, why: str) -> HostError:
    return HostError(
        f"cannot reach {endpoint}: {why}",
        hint=f"try: ssh {endpoint.alias}; then correct address, port or ~/.ssh/config",
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return f"the name does not resolve ({error.strerror})"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _close_together(client: paramiko.SSHClient, before: paramiko.SSHClient) -> None:
    close: Callable[[], None] = client.close

    def close_both() -> None:
        close()
        before.close()

    client.close = close_both  # type: ignore[method-assign]  # paramiko has no hook for this
