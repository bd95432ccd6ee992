"""Server-sent events out of a body that arrives in arbitrary pieces."""

MAX_LINE_BYTES = 4 << 20


class LineTooLong(Exception):
    """A server sent a line beyond `MAX_LINE_BYTES`; nobody's token is that long."""


class EventSplitter:
    """Cuts a byte stream into the data of its events, as the WHATWG standard has it.

    Lines end in LF, CRLF or CR; `data` lines of one event are joined by LF; comments and other
    fields are passed over; an event that the stream's end cuts off is no event.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    @property
    def pending(self) -> bool:
        """Whether part of an event is waiting for its end."""
        return bool(self._rest or self._data)

    def feed_all(self, pieces: list[bytes]) -> tuple[list[bytes], list[int] | None]:
        """Give the data of all events, and how many there are up to the end of each piece.

        None for the latter: each piece is exactly one event, in the form that all servers send.
        That is found out for all of them at once, in a handful of passes over the bytes. Raises
        LineTooLong.
        """
        body = b"\0".join(pieces)  # a zero byte occurs in no JSON, so it marks where pieces meet
        if not self.pending and body.startswith(b"data: ") and len(body) < MAX_LINE_BYTES:
            events = body[6:-2].split(b"\n\n\0data: ")
            if (
                len(events) == len(pieces)
                and body.count(b"\n") == 2 * len(pieces)
                and body.endswith(b"\n\n")
                and b"\r" not in body
            ):
                return events, None
        events, ends = [], []
        for piece in pieces:
            events += self.feed(piece)
            ends.append(len(events))
        return events, ends

    def feed(self, piece: bytes) -> list[bytes]:
        """Give the data of every event that ends in this piece. Raises LineTooLong."""
        buffer = self._rest + piece
        held = buffer.endswith(b"\r")  # it may be the first half of a CRLF
        if held:
            buffer = buffer[:-1]
        lines = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + (b"\r" if held else b"")
        events = [event for line in lines if (event := self._line(line)) is not None]
        if len(self._rest) > MAX_LINE_BYTES:
            raise LineTooLong
        return events

    def _line(self, line: bytes) -> bytes | None:
        if len(line) > MAX_LINE_BYTES:
            raise LineTooLong
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data) if data else None
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        return None
