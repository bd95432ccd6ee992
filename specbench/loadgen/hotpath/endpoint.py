"""Where a drive connects to, and what every request to it begins with."""

import os
import socket
import ssl
from urllib.parse import urlsplit

import msgspec

from specbench.backends.base_url import base_url
from specbench.backends.bearer import bearer
from specbench.backends.paths import path_of
from specbench.backends.products import backend_for
from specbench.errors import DriveFailed, InputError
from specbench.model.load import Target


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A resolved server: one address, TLS or not, and the head of each request.

    `tunnel` is the CONNECT request to a proxy that must be answered before TLS begins.
    """

    url: str
    host: str
    family: int
    address: tuple[str | int, ...]
    tls: bool
    verify_tls: bool
    head: bytes
    tunnel: bytes = b""

    def ssl_context(self) -> ssl.SSLContext | None:
        """Build the one TLS context of the drive; None without TLS."""
        if not self.tls:
            return None
        context = ssl.create_default_context()
        if not self.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def request(self, body: bytes, rid: str) -> bytes:
        """Put one POST together."""
        return b"%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self.head,
            rid.encode(),
            len(body),
            body,
        )


def resolve(target: Target, connect_timeout_s: float) -> Endpoint:
    """Look the server up and find the first of its addresses that accepts a connection.

    Raises InputError for a URL that is none, DriveFailed when nothing can be reached there.
    """
    split = urlsplit(base_url(target.url))
    try:
        port = split.port
    except ValueError as error:
        raise InputError(f"not a URL: {target.url!r}: {error}") from None
    if split.scheme not in ("http", "https") or not split.hostname:
        raise InputError(
            f"not a URL of a server: {target.url!r}", hint="for example http://127.0.0.1:30000"
        )
    if any(character <= " " for character in target.url):
        raise InputError(f"a URL holds no spaces and no control characters: {target.url!r}")
    tls = split.scheme == "https"
    port = port or (443 if tls else 80)
    proxy = _proxy(split.scheme, split.hostname) if target.use_proxy else None
    family, address = _reachable(*(proxy or (split.hostname, port)), connect_timeout_s, target.url)
    authority = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
    backend = backend_for(target.engine)
    path = split.path + path_of(backend.paths, target.api, backend.title)
    absolute = f"http://{authority}:{port}{path}" if proxy and not tls else path
    tunnel = f"CONNECT {authority}:{port} HTTP/1.1\r\nHost: {authority}:{port}\r\n\r\n"
    return Endpoint(
        url=target.url,
        host=split.hostname,
        family=family,
        address=address,
        tls=tls,
        verify_tls=target.verify_tls,
        head=_head(absolute, f"{authority}:{port}", target),
        tunnel=tunnel.encode() if proxy and tls else b"",
    )


def _head(path: str, authority: str, target: Target) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {authority}", "Content-Type: application/json"]
    if target.api_key_env:
        key = os.environ.get(target.api_key_env)
        if not key:
            raise InputError(
                f"the environment variable {target.api_key_env} is not set",
                hint="it must hold the API key of the server",
            )
        lines.append(f"Authorization: {bearer(key, target.api_key_env)}")
    return ("\r\n".join(lines) + "\r\n").encode()


def _proxy(scheme: str, host: str) -> tuple[str, int] | None:
    """Give the proxy that the environment names for this host, if any."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - slow, and rarely wanted

    if proxy_bypass(host):
        return None
    url = getproxies().get(scheme)
    if not url:
        return None
    split = urlsplit(url if "//" in url else f"//{url}")
    return (split.hostname or "", split.port or 8080)


def _reachable(
    host: str, port: int, timeout_s: float, url: str
) -> tuple[int, tuple[str | int, ...]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise DriveFailed(
            f"cannot look up {host}: {getattr(error, 'strerror', None) or error}", where=url
        ) from None
    failures = []
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.settimeout(timeout_s)
                probe.connect(address)
        except OSError as error:
            failures.append(f"{address[0]}: {error.strerror or error}")
        else:
            return family, tuple(address)  # type: ignore[arg-type]  # bytes come without IPv6 only
    raise DriveFailed(
        f"cannot connect to {host} port {port}: {'; '.join(dict.fromkeys(failures))}",
        where=url,
        hint="is the server up, and is the port right?",
    )
