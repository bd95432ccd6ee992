"""A shell that answers some commands from a script and leaves the rest to this machine."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from specbench.errors import HostError
from specbench.remote.lines import FollowedLines
from specbench.remote.local import LocalShell
from specbench.remote.shell import Completed

Answer = tuple[int, str, str]


class ScriptedShell(LocalShell):
    """`answers` maps the beginning of a command (words joined by a space) to status and outputs.

    `asked` keeps every command that was run.
    """

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        super().__init__("host")
        self.answers = dict(answers or {})
        self.asked: list[str] = []
        self.forbids_tunnels = False

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        input: str | bytes | None = None,  # noqa: A002 - the word of the protocol
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        line = " ".join(argv)
        self.asked.append(line)
        for start in sorted(self.answers, key=len, reverse=True):
            if line.startswith(start):
                status, stdout, stderr = self.answers[start]
                return Completed(argv=tuple(argv), status=status, stdout=stdout, stderr=stderr)
        return super().run(argv, timeout_s=timeout_s, input=input, env=env)

    @contextlib.contextmanager
    def follow(self, argv: Sequence[str]) -> Iterator[FollowedLines]:
        with super().follow(argv) as lines:
            yield lines

    def check_forwarding(self) -> None:
        if self.forbids_tunnels:
            raise HostError("sshd forbids tunnels (AllowTcpForwarding no)")
