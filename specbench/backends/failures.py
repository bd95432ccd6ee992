"""Why a server failed, read from its last lines: a name, a cause, a hint, the evidence.

A failure usually leaves several patterns, because the death of one process is reported by its
neighbours: the pattern nearest to the cause outranks those that only report a death.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from specbench.model.service import END_UNKNOWN, LoadFailure

EVIDENCE_LINES = 12
"""Lines of evidence kept with a diagnosis."""

_NO_LIBRARY = "error while loading shared libraries"
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout)\b")


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One way to fail.

    `rank` orders patterns found together: 0 names a cause, 1 a symptom near to it, 2 the death of
    some process. `fatal` says that the line alone settles it; otherwise it matters only once the
    process has ended. `draws_traceback` says that the exception follows in the next lines.
    """

    name: str
    regexp: str
    cause: str
    hint: str
    rank: int = 0
    fatal: bool = True
    draws_traceback: bool = False


NO_MODULE = Pattern(
    name="no_module",
    regexp=r"^(?P<interpreter>/\S+|\S*py\S*): (?:Error while finding module specification for .*"
    r"ModuleNotFoundError: )?No module named '?(?P<module>[\w.]+)'?",
    cause="the interpreter {interpreter} has no package {module!r}",
    hint="name the interpreter of the environment that has it as python in hosts.yaml; without "
    "such a server, the embedded engine: command: ['{python}', -m, specbench.engine]",
    fatal=False,
)
"""`python -m` of a server that is not installed, in the words of CPython 3.8 to 3.14."""


class Diagnoser:
    """Explains failures by the patterns of one product.

    `message_of` takes the time and the rank off a line, `is_stamped` tells a line of the log from
    one of a traceback. Lines that `quotes` matches repeat what users said, which may be the text of
    an error. `phases` are milestones of a load and how to say that it was there.
    """

    def __init__(
        self,
        patterns: Sequence[Pattern],
        *,
        message_of: Callable[[str], str],
        is_stamped: Callable[[str], bool],
        quotes: re.Pattern[str],
        phases: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._compiled = [(pattern, re.compile(pattern.regexp)) for pattern in patterns]
        self._message_of = message_of
        self._is_stamped = is_stamped
        self._quotes = quotes
        self._phases = phases

    def match(self, line: str) -> Pattern | None:
        """Find the pattern that a line shows; None for a healthy line."""
        message = self._message_of(line)
        if self._quotes.match(message):
            return None
        return next((pattern for pattern, regexp in self._compiled if regexp.search(message)), None)

    def diagnose(
        self, lines: Sequence[str], *, exit_status: int | None = None, stop_requested: bool = False
    ) -> LoadFailure | None:
        """Explain a failure by the lines of this one process, oldest first.

        `exit_status` is that of the ended process (minus the signal's number, END_UNKNOWN where
        nobody saw the end), None while it lives. None means that nothing has failed: no pattern in
        a living server, or a stop that was asked for, after which a server may write lines that
        look like crashes.
        """
        if stop_requested:
            return None
        found = [
            (number, pattern) for number, line in enumerate(lines) if (pattern := self.match(line))
        ]
        if exit_status is None:
            found = [(number, pattern) for number, pattern in found if pattern.fatal]
        if found:
            number, pattern = min(found, key=lambda entry: (entry[1].rank, entry[0]))
            return self._explain(lines, number, pattern)
        return None if exit_status is None else self._unknown_end(lines, exit_status)

    def _explain(self, lines: Sequence[str], number: int, pattern: Pattern) -> LoadFailure:
        message = self._message_of(lines[number])
        exception = self._exception_after(lines, number) or self._exception_before(lines, number)
        texts = {
            "message": message[:300],
            "exception": exception or message[:300],
            "phase": self._phase_before(lines, number + 1),
            **self._groups_of(pattern, message),
        }
        cause = pattern.cause.format_map(texts)
        if pattern.draws_traceback and exception and exception not in cause:
            cause = f"{cause} ({exception})"
        return LoadFailure(
            pattern=pattern.name,
            cause=cause,
            hint=pattern.hint,
            evidence=self._around(lines, number, follow=pattern.draws_traceback),
        )

    def _unknown_end(self, lines: Sequence[str], exit_status: int) -> LoadFailure:
        exception = self._exception_before(lines, len(lines))
        how = f"with exit status {exit_status}" if exit_status >= 0 else f"by signal {-exit_status}"
        match exit_status:
            case _ if exit_status == END_UNKNOWN:
                how = "in a way that nobody saw"
                hint = (
                    "it ended by itself, was started again, or its state cannot be read: see the "
                    "last lines of server.log, and specbench hosts check"
                )
            case _ if exception and exception.startswith("ModuleNotFoundError"):
                hint = (
                    "install the package into the environment of this interpreter, or name the "
                    "interpreter that has it as python in hosts.yaml"
                )
            case -9 | 137:
                hint = (
                    "killed from outside: often the system's OOM killer; see dmesg and free memory"
                )
            case 127 if any(_NO_LIBRARY in line for line in lines[-EVIDENCE_LINES:]):
                hint = (
                    "install the library that its last line names, or give its folder as "
                    "LD_LIBRARY_PATH under env in hosts.yaml"
                )
            case 127:
                hint = (
                    "the command was not found on the host: correct command or python in hosts.yaml"
                )
            case 0:
                hint = "a server must not end by itself: is the command one that stays in front?"
            case _:
                hint = "the last lines of server.log tell more"
        return LoadFailure(
            pattern="exited",
            cause=f"the server ended {how}" + (f": {exception}" if exception else ""),
            hint=hint,
            evidence=tuple(lines[-EVIDENCE_LINES:]),
        )

    def _groups_of(self, pattern: Pattern, message: str) -> dict[str, str]:
        """Return the named parts of the line that a pattern was found in."""
        found = re.search(pattern.regexp, message)
        return {} if found is None else found.groupdict(default="")

    def _exception_after(self, lines: Sequence[str], number: int) -> str | None:
        """Find the last exception before the next stamped line: of a chain, what got out."""
        found = None
        for line in lines[number + 1 : number + 200]:
            if self._is_stamped(line):
                break
            if _EXCEPTION.match(line):
                found = line.strip()[:300]
        return found

    def _exception_before(self, lines: Sequence[str], number: int) -> str | None:
        for line in reversed(lines[max(0, number - 200) : number]):
            message = self._message_of(line)
            if _EXCEPTION.match(message):
                return message[:300]
        return None

    def _phase_before(self, lines: Sequence[str], number: int) -> str:
        for line in reversed(lines[:number]):
            for milestone, phrase in self._phases:
                if milestone in line:
                    return phrase
        return ""

    def _around(self, lines: Sequence[str], number: int, *, follow: bool) -> tuple[str, ...]:
        """Keep a few lines before the decisive one, more after it where a traceback follows."""
        before = 2 if follow else 4
        start = max(0, number - before)
        return tuple(line[:1000] for line in lines[start : start + EVIDENCE_LINES])
