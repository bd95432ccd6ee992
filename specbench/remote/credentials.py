"""What to log in with, as OpenSSH would: the keys, agents and certificates that it is told of."""

import contextlib
import os
import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.auth_strategy import AuthSource, AuthStrategy, InMemoryPrivateKey

from specbench.remote import passwords
from specbench.remote.endpoint import Endpoint

AGENT_S = 5.0
UNREADABLE = (paramiko.SSHException, OSError, ValueError, TypeError)


def attempts(
    endpoint: Endpoint, host: str, notes: list[str]
) -> Generator[dict[str, Any], None, None]:
    """Yield what to log in with: keys and agents first; a password only if these were refused.

    `notes` receives what the SSH configuration names and could not be offered.
    """
    public = [path for path in endpoint.identities if _public_part(path, itself=True)]
    private = [path for path in endpoint.identities if path not in public]
    passphrase = _known_passphrase(endpoint, host)
    if public or endpoint.certificates or endpoint.agent is not None:
        with contextlib.closing(_Agent()) as agent:
            held = _held(agent, endpoint, public, notes)
            mine = [key for path in private if (key := _load(path, passphrase)) is not None]
            certified = _certified(endpoint, [*mine, *held], notes)
            if certified or held:
                yield {"auth_strategy": _Keys(endpoint.user, [*certified, *held])}
    yield {
        "key_filename": private or None,
        "allow_agent": endpoint.use_agent and endpoint.agent is None,
        "passphrase": passphrase,
    }
    password = passwords.find("SSH_PASSWORD", host, str(endpoint))
    if password is not None:
        yield {"password": password, "allow_agent": False}


def _known_passphrase(endpoint: Endpoint, host: str) -> str | None:
    """Ask for a passphrase only where one is set: asking at every start would be a nuisance."""
    if passwords.known("SSH_PASSPHRASE", host, str(endpoint)):
        return passwords.find("SSH_PASSPHRASE", host, str(endpoint))
    return None


class _Agent(AgentSSH):
    """An agent at a socket of any path; paramiko's own knows that of the environment alone."""

    def open(self, path: str) -> None:
        """Ask it for its keys. Raises OSError or SSHException where it does not answer."""
        way = socket.socket(socket.AF_UNIX)
        way.settimeout(AGENT_S)
        try:
            way.connect(path)
            self._connect(way)  # type: ignore[attr-defined]  # the stubs lack it
        except BaseException:
            way.close()
            raise

    def close(self) -> None:
        """Close the connection to it."""
        self._close()  # type: ignore[attr-defined]  # the stubs lack it


class _Keys(AuthStrategy):
    """Offer keys one by one, over one connection."""

    def __init__(self, user: str, keys: list[paramiko.PKey]) -> None:
        super().__init__(ssh_config=paramiko.SSHConfig())
        self._user = user
        self._keys = keys

    def get_sources(self) -> Iterator[AuthSource]:
        """Yield the keys as paramiko wants them."""
        for key in self._keys:
            yield InMemoryPrivateKey(self._user, key)


def _held(
    agent: _Agent, endpoint: Endpoint, public: list[str], notes: list[str]
) -> list[paramiko.PKey]:
    """Take the keys of the agent that may be offered, those first that an IdentityFile names."""
    path = os.environ.get("SSH_AUTH_SOCK", "") if endpoint.agent is None else endpoint.agent
    missing = [f"no agent holds the private key of {each}" for each in public]
    if not path:
        notes.extend(missing)
        return []
    try:
        agent.open(path)
    except UNREADABLE as error:
        notes.append(f"the agent at {path} does not answer: {_reason(error)}")
        return []
    keys: dict[bytes, paramiko.PKey] = {key.asbytes(): key for key in agent.get_keys()}
    named = {part for each in endpoint.identities if (part := _public_part(each))}
    notes.extend(
        text
        for each, text in zip(public, missing, strict=True)
        if _public_part(each, itself=True) not in keys
    )
    first = [key for blob, key in keys.items() if blob in named]
    if not endpoint.use_agent:  # IdentitiesOnly: an agent is asked for the keys that are named
        return first
    return [*first, *(key for blob, key in keys.items() if blob not in named)]


def _public_part(path: str, *, itself: bool = False) -> bytes | None:
    """Read the public key that a file is or, unless `itself`, that lies beside a private one."""
    for candidate in (path,) if itself else (path, f"{path}.pub"):
        with contextlib.suppress(*UNREADABLE):
            text = Path(candidate).read_text()
            if not text.lstrip().startswith("-----"):
                return paramiko.pkey.PublicBlob.from_string(text).key_blob
    return None


def _load(path: str, passphrase: str | None) -> paramiko.PKey | None:
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with contextlib.suppress(*UNREADABLE):
            return kind.from_private_key_file(path, passphrase)
    return None  # offered the ordinary way, which says what is wrong with it


def _certified(
    endpoint: Endpoint, keys: list[paramiko.PKey], notes: list[str]
) -> list[paramiko.PKey]:
    """Put each certificate of the configuration on the key that it is for."""
    found: list[paramiko.PKey] = []
    for path in endpoint.certificates:
        try:
            blob = paramiko.pkey.PublicBlob.from_file(path)
        except UNREADABLE as error:
            notes.append(f"CertificateFile {path} cannot be read: {_reason(error)}")
            continue
        # A certificate is a type, a nonce, and then the fields of the key behind its type.
        behind = _after(blob.key_blob, 2)
        owned = [key for key in keys if behind.startswith(_after(key.asbytes(), 1))]
        if not owned:
            notes.append(f"no key is there that CertificateFile {path} belongs to")
            continue
        owned[0].public_blob = blob
        found.append(owned[0])
        keys = [key for key in keys if key is not owned[0]]
    return found


def _after(blob: bytes, fields: int) -> bytes:
    for _ in range(fields):
        blob = blob[4 + int.from_bytes(blob[:4], "big") :]
    return blob


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
