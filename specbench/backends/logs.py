"""What the logs of all products have in common."""

import re
from collections.abc import Callable, Sequence

from specbench.backends.backend import LogEvent, Notice, Ready
from specbench.backends.failures import Pattern
from specbench.model.service import LoadProgress, Phase

_BAR = re.compile(r"(?P<percent>\d{1,3})%(?: Completed)?\s*\|.*?(?P<done>\d+)/(?P<all>\d+)\b")


def split_lines(text: str) -> list[str]:
    """Split a log at newlines; of a progress bar drawn over itself, keep every state."""
    return [piece for piece in re.split(r"[\r\n]+", text) if piece]


def fraction_of(message: str) -> float | None:
    """Read a progress bar; None where there is none."""
    bar = _BAR.search(message)
    if bar is None:
        return None
    done = int(bar["done"]) / int(bar["all"]) if int(bar["all"]) else int(bar["percent"]) / 100
    return min(1.0, done)


def detail_of(message: str) -> str:
    """Say how far a progress bar is; without one, the message."""
    bar = _BAR.search(message)
    return f"{bar['done']} of {bar['all']}" if bar else message[:160]


class Grammar:
    """Reads lines by milestones (the first that matches counts), notices, and a word of readiness.

    None of them is ever required, and unknown lines mean nothing. Once `draft` was seen, weights
    are the draft model's.
    """

    def __init__(
        self,
        milestones: Sequence[tuple[str, Phase]],
        notices: Sequence[tuple[str, str]],
        ready: str,
        message_of: Callable[[str], str],
    ) -> None:
        self._milestones = [(re.compile(pattern), phase) for pattern, phase in milestones]
        self._notices = tuple(notices)
        self._ready = ready
        self._message_of = message_of
        self._draft = False

    def read(self, line: str) -> LogEvent | None:
        """Read the next line."""
        message = self._message_of(line)
        if self._ready in message:
            return Ready()
        for name, text in self._notices:
            if text in message:
                return Notice(name=name, text=message[:500])
        for pattern, phase in self._milestones:
            if pattern.search(message):
                self._draft = self._draft or phase == "draft"
                shown: Phase = "draft" if self._draft and phase == "weights" else phase
                return LoadProgress(
                    phase=shown, fraction=fraction_of(message), detail=detail_of(message)
                )
        return None


class LogFollower:
    """Follows a log by a product's reading of a line and its patterns of failure."""

    def __init__(
        self, read: Callable[[str], LogEvent | None], match: Callable[[str], Pattern | None]
    ) -> None:
        self._read = read
        self._match = match

    def read(self, line: str) -> LogEvent | None:
        """Read the next line."""
        return self._read(line)

    def is_fatal(self, line: str) -> bool:
        """Whether a line alone settles that the server has failed."""
        pattern = self._match(line)
        return pattern is not None and pattern.fatal
