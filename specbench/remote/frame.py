"""Marks around the answer of a remote command, so that login scripts may print."""

import secrets

from specbench.remote.shell import quote

_RUN = (
    'printf %s "$1"; printf %s "$1" >&2; sh -c "$2"; status=$?; '
    'printf %s "$3"; printf %s "$3" >&2; exit $status'
)
WAIT_LIMIT = 2**20
"""Bytes before the first mark after which an output is taken as it is."""


class Frame:
    """The two marks of one command; no output holds them by chance."""

    def __init__(self) -> None:
        token = secrets.token_hex(8)
        self.begin, self.end = f"<specbench {token}>", f"</specbench {token}>"

    def around(self, line: str) -> list[str]:
        """Write a command that runs a shell line between marks, on both of its outputs.

        The status is the line's; one that a signal ended has the shell's 128 + n.
        """
        return ["sh", "-c", _RUN, "sh", self.begin, line, self.end]

    def before(self, script: str) -> list[str]:
        """Write a command whose standard output begins with a mark; nothing stands behind it."""
        return ["sh", "-c", f"printf %s {quote([self.begin])}; {script}"]

    def inside(self, output: bytes) -> bytes:
        """Return what stands between the marks.

        All that follows where the command did not come to its end, all where it did not begin.
        """
        _, began, rest = output.partition(self.begin.encode())
        return rest.partition(self.end.encode())[0] if began else output


class Opening:
    """What was read of an output that begins with a mark, as long as the mark has not come."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._held: bytearray | None = bytearray()

    def let_through(self, piece: bytes) -> bytes | None:
        """Return what of a piece is the command's, None for nothing yet; b"" is the end.

        The end without a mark gives what was held: it says why the command did not begin.
        """
        if self._held is None:
            return piece
        self._held += piece
        _, began, rest = bytes(self._held).partition(self._frame.begin.encode())
        if began:
            self._held = None
            return rest or None
        if piece and len(self._held) < WAIT_LIMIT:
            return None
        held, self._held = bytes(self._held), None
        return held
