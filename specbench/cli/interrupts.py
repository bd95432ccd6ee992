"""A polite end: SIGTERM and a lost terminal end a run as Ctrl-C does."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from specbench.errors import Interrupted


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the run as Ctrl-C does, so that servers are stopped.

    Raises Interrupted (exit status 130) once everything is put back.
    """

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(name, interrupt) for name in names]
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted; the same command resumes") from None
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


@contextmanager
def first_interrupt_asks() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C ask for an end, so that what was measured is shown; the second ends.

    Gives what says whether it was asked.
    """
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    finally:
        signal.signal(signal.SIGINT, before)
