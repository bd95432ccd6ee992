"""HTTP/1.1 responses: heads and framing by a well-kept parser, httptools or else h11.

httptools (the parser of uvicorn and Node) is what specbench installs. Where the driver runs by
itself in the environment of a server it may be absent; h11, which uvicorn cannot do without, then
takes its place: about 20 microseconds an event slower, paid after the stream's end, never at
arrival.
"""

from typing import Any, Protocol

try:
    import httptools
except ImportError:  # the driver that runs by itself
    httptools = None  # type: ignore[assignment]  # its absence is looked at before each use


class Response(Protocol):
    """One response as far as it has been fed."""

    status: int | None
    headers: dict[str, str]
    complete: bool
    keep_alive: bool
    pieces: list[bytes]
    failure: str

    def feed(self, reads: list[bytes]) -> list[int]:
        """Take reads and append their part of the body to `pieces`.

        Gives for each read how many pieces there are up to its end. Bytes that are no HTTP/1.1
        response set `failure`, and nothing is taken any more.
        """

    def end(self) -> None:
        """Say that the server closed: completes a body that the close delimits."""

    def release(self) -> None:
        """Let go of the parser, which holds a cycle of references."""


def new_response() -> Response:
    """Give a parser for one response to a POST."""
    return H11Response() if httptools is None else HttptoolsResponse()  # type: ignore[redundant-expr]  # None without the package


class HttptoolsResponse:
    """Over httptools; a 1xx response before the real one is passed over."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self.keep_alive = True
        self.failure = ""
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append  # the parser looks callbacks up once, in the next line
        self._held = 0
        self._parser: Any = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; the parser calls this."""
        if self.complete:
            return
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Keep the status; the parser calls this."""
        if self.complete:
            return
        self.status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        """Note the end; the parser calls this."""
        if self.status is not None and self.status < 200:
            self.status, self.headers = None, {}
            return
        if self.complete:
            return
        self.complete = True
        self.keep_alive = self._parser.should_keep_alive()
        self._held = len(self.pieces)

    def on_message_begin(self) -> None:
        """Note that more came than was asked for; the parser calls this."""
        if self.complete:
            self.keep_alive = False

    def feed(self, reads: list[bytes]) -> list[int]:
        """Take reads; see Response."""
        ends: list[int] = []
        feed, pieces = self._parser.feed_data, self.pieces
        try:
            for data in reads:
                feed(data)
                ends.append(len(pieces))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keep_alive = False
            if not self.complete:
                self.failure = str(error) or "not HTTP/1.1"
        if self.complete:
            del pieces[self._held :]  # of a message that nobody asked for
            ends = [min(end, self._held) for end in ends]
        return ends + [len(pieces)] * (len(reads) - len(ends))

    def end(self) -> None:
        """Say that the server closed: completes a body that the close delimits."""
        _close(self)

    def release(self) -> None:
        """Let go of the parser, which holds a cycle of references."""
        self._parser = None


class H11Response:
    """Over h11."""

    def __init__(self) -> None:
        import h11  # noqa: PLC0415 - only where httptools is absent

        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self.keep_alive = True
        self.failure = ""
        self.pieces: list[bytes] = []
        self._h11 = h11
        self._connection = h11.Connection(h11.CLIENT)
        request = h11.Request(method="POST", target="/", headers=[("Host", "server")])
        self._connection.send(request)
        self._connection.send(h11.EndOfMessage())

    def feed(self, reads: list[bytes]) -> list[int]:
        """Take reads; see Response."""
        ends: list[int] = []
        try:
            for data in reads:
                self._connection.receive_data(data)
                self._take_events()
                ends.append(len(self.pieces))
        except self._h11.RemoteProtocolError as error:
            self.failure = str(error) or "not HTTP/1.1"
        return ends + [len(self.pieces)] * (len(reads) - len(ends))

    def _take_events(self) -> None:
        while True:
            event = self._connection.next_event()
            if event is self._h11.NEED_DATA or event is self._h11.PAUSED:
                return
            if isinstance(event, self._h11.Response):
                self.status = event.status_code
                self.headers = {
                    name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers
                }
            elif isinstance(event, self._h11.Data):
                self.pieces.append(bytes(event.data))
            elif isinstance(event, self._h11.EndOfMessage):
                self.complete = True
                self.keep_alive = self._connection.their_state is not self._h11.MUST_CLOSE
                return

    def end(self) -> None:
        """Say that the server closed: completes a body that the close delimits."""
        _close(self)

    def release(self) -> None:
        """Let go of the parser."""


def _close(response: Response) -> None:
    framed = "content-length" in response.headers or "chunked" in response.headers.get(
        "transfer-encoding", ""
    )
    response.keep_alive = False
    if response.status is not None and not framed:
        response.complete = True
