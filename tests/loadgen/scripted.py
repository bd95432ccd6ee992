"""A server on a thread that does to each request what a script says, and a drive against it."""

import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from specbench.loadgen import drive
from specbench.model.load import (
    Closed,
    DriveReport,
    LoadSpec,
    Prompt,
    RequestRecord,
    Sampling,
    Shape,
    Stop,
    Target,
)

Script = Callable[[socket.socket, int], None]
"""Answers one request on a connection; the number is the request's in its drive, from 0."""

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"
_LISTED = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
MODELS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_LISTED),
    _LISTED,
)
"""The answer to every GET: who serves."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(document: object) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def word(text: str, count: int | None = None) -> bytes:
    usage = {} if count is None else {"usage": {"prompt_tokens": 5, "completion_tokens": count}}
    return event({"choices": [{"index": 0, "delta": {"content": text}}], **usage})


def finish() -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


def usage(count: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": count}})


DONE = b"data: [DONE]\n\n"
GOOD = [word("a", 1), word("bc", 3), word("d", 4), finish(), usage(4), DONE]


def stream(events: list[bytes]) -> bytes:
    return HEAD + b"".join(map(chunk, events)) + END


def good(connection: socket.socket, number: int) -> None:
    connection.sendall(stream(GOOD))


class Server:
    """Listens on a free loopback port until closed; `requests` holds what it was sent."""

    def __init__(
        self, script: Script, family: socket.AddressFamily, tls: ssl.SSLContext | None
    ) -> None:
        self._script = script
        self._tls = tls
        self._closing = threading.Event()
        self._listener = socket.create_server(
            ("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family
        )
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()

    def hang(self) -> None:
        """Let a script wait until the server is closed."""
        self._closing.wait(20)

    def closing_or(self, seconds: float) -> None:
        """Wait that long, or until the server is closed."""
        self._closing.wait(seconds)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._keep(connection):
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _keep(self, connection: socket.socket) -> bool:
        """Remember a connection for `close`; one that comes as late as that is closed here."""
        with self._lock:
            if not self._closing.is_set():
                self._open.append(connection)
                return True
        connection.close()
        return False

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        with contextlib.suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                if not self._keep(connection):
                    return
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = connection.recv(65536)
                    if not data:
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                if head.startswith(b"GET "):
                    connection.sendall(MODELS)
                    continue
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                while len(buffer) < length:
                    buffer += connection.recv(65536)
                with self._lock:
                    self.requests.append(head + b"\r\n\r\n" + buffer[:length])
                named = head.partition(b"X-Request-Id: ")[2].partition(b"\r\n")[0]
                number = int(named.rpartition(b"-")[2] or 0)
                buffer = buffer[length:]
                self._script(connection, number)


@contextlib.contextmanager
def serving(
    script: Script,
    family: socket.AddressFamily = socket.AF_INET,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Server]:
    server = Server(script, family, tls)
    try:
        yield server
    finally:
        server.close()


def make_load(
    folder: Path,
    url: str,
    *,
    shape: Shape | None = None,
    requests: int | None = 2,
    **changes: object,
) -> LoadSpec:
    prompts = folder / "prompts.jsonl"
    lines = [msgspec.json.encode(Prompt(prompt_id=f"p{n}", text=f"prompt {n}")) for n in range(7)]
    prompts.write_bytes(b"\n".join(lines) + b"\n")
    load = LoadSpec(
        target=Target(url=url, model="m"),
        prompts_path=str(prompts),
        sampling=Sampling(max_tokens=16),
        shape=shape or Closed(concurrency=1),
        stop=Stop(requests=requests),
        request_timeout_s=5.0,
        processes=1,
    )
    return msgspec.structs.replace(load, **changes)


def with_target(folder: Path, port: int, **changes: object) -> LoadSpec:
    url = f"http://127.0.0.1:{port}"
    load = make_load(folder, url)
    return msgspec.structs.replace(load, target=msgspec.structs.replace(load.target, **changes))


def run(load: LoadSpec, sink: Path) -> tuple[DriveReport, list[RequestRecord]]:
    *_, report = drive(load, sink)
    assert isinstance(report, DriveReport)
    return report, rows(sink)


def self_signed(folder: Path) -> ssl.SSLContext:
    """Make a certificate for 127.0.0.1 that nobody trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def index_of(row: RequestRecord) -> int:
    """Give the number of a row's request in its drive."""
    return int(row.rid.rsplit("-", 1)[1])


def rows(sink: Path) -> list[RequestRecord]:
    return [
        msgspec.json.decode(line, type=RequestRecord) for line in sink.read_bytes().splitlines()
    ]
