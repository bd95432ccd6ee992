"""The tree of user-facing errors: what went wrong, where, and what to do next.

    SpecbenchError            exit status
    ├── InputError            2   the user's input is wrong; nothing was started
    │   └── ConfoundError     2   two groups differ in more than was declared
    ├── RecordingError        2   a recording cannot be read, or is in use
    ├── ServiceError          3   a server failed; other cells go on
    │   └── LoadFailed        3   ... while it was loading
    ├── HostError             4   a host, SSH or the launcher is unreachable or misconfigured
    │   └── DriveFailed       4   ... or a load broke off: in a run, one failed trial
    └── Interrupted           130 the user stopped it; the same command resumes

A failed *request* is not an exception but a row with a reason; a *bug* is never caught.
"""

import difflib
from collections.abc import Iterable, Sequence


class SpecbenchError(Exception):
    """Anything that a user can understand and act on."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  at {self.where}")
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


class InputError(SpecbenchError):
    """The user's input is wrong: `where` is file:line:column, `hint` the nearest valid choice."""

    exit_code = 2


class InputErrors(InputError):
    """Several input errors found in one reading, reported together."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)


class ConfoundError(InputError):
    """The two sides of a comparison differ in columns that were not declared.

    `columns` maps each differing column to the values on the two sides.
    """

    def __init__(
        self, what: str, *, columns: dict[str, tuple[str, str]], hint: str | None = None
    ) -> None:
        super().__init__(what, hint=hint)
        self.columns = columns


class RecordingError(SpecbenchError):
    """A recording cannot be opened, is written by another process, or is of a newer schema."""

    exit_code = 2


class ServiceError(SpecbenchError):
    """A server failed; its cells are recorded as failed and the run goes on.

    `log_tail` holds the last lines that the server wrote.
    """

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        log_tail: Sequence[str] = (),
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.log_tail = tuple(log_tail)


class LoadFailed(ServiceError):
    """A server died, hung or refused its arguments before it was ready.

    `pattern` is the diagnosis for scripts ("cuda_oom", "bad_flag", ...), `evidence` the log lines
    that led to it.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        log_tail: Sequence[str] = (),
        pattern: str = "",
        evidence: Sequence[str] = (),
    ) -> None:
        super().__init__(what, where=where, hint=hint, log_tail=log_tail)
        self.pattern = pattern
        self.evidence = tuple(evidence)


class HostError(SpecbenchError):
    """A host, SSH or the launcher is unreachable or misconfigured."""

    exit_code = 4


class DriveFailed(HostError):
    """A load broke off: nothing answered, or a load worker died. The host itself may be sound."""


class Interrupted(SpecbenchError):
    """The user stopped the program; the same command resumes."""

    exit_code = 130


def nearest(name: str, known: Iterable[str], *, noun: str = "valid names") -> str:
    """Say which valid name was probably meant, and otherwise which ones there are."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name[:200], names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{noun}: {shown}" if names else f"there are no {noun}"
