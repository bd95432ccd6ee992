"""Draws the pictures of a report beside its text, in processes of their own where cores allow."""

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from specbench.report import theme
from specbench.report.figures import TITLES, Picture, paint
from specbench.report.inputs import Evidence

COMPARING = frozenset({"speedup", "decomposition"})
"""Pictures of comparisons: drawn where the text needs the comparisons too, so made once."""

_shared: tuple[Evidence, ...] = ()


class Painter:
    """Gives the pictures of some recordings, by position and name."""

    def __init__(
        self, sources: Sequence[Evidence], begun: dict[tuple[int, str], "Future[Picture | None]"]
    ) -> None:
        self._sources = sources
        self._begun = begun

    def picture(self, number: int, name: str) -> Picture | None:
        """Give a picture of recording `number`; None where it has nothing to show in it."""
        begun = self._begun.get((number, name))
        if begun is not None:
            try:
                return begun.result()
            except BrokenProcessPool:
                pass  # a worker was killed, for memory say: the picture is drawn here instead
        return paint(name, self._sources[number])


@contextmanager
def painter(sources: Sequence[Evidence]) -> Iterator[Painter]:
    """Begin to draw what needs no comparison; the caller goes on and fetches it at the end."""
    cores = _cores()
    if cores < 2:
        yield Painter(sources, {})
        return
    theme.darkening()  # here, so that every worker has it
    gc.freeze()  # the collector shall not walk through, and so copy, what the workers share
    with ProcessPoolExecutor(
        cores, mp_context=get_context("fork"), initializer=_share, initargs=(tuple(sources),)
    ) as pool:
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of forks beside threads. These are idle ones of the linear
                # algebra library, which has fork handlers; _cores sees to it that we have none.
                warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
                begun = {
                    (number, name): pool.submit(_paint, number, name)
                    for number in range(len(sources))
                    for name in TITLES
                    if name not in COMPARING
                }
            yield Painter(sources, begun)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            gc.unfreeze()


def _cores() -> int:
    """Cores to draw on; 1 where a fork would not be safe: other systems, or threads at work."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return len(os.sched_getaffinity(0))


def _share(sources: tuple[Evidence, ...]) -> None:
    """Take the evidence as the fork left it in memory: nothing is copied or pickled."""
    global _shared  # noqa: PLW0603 - a worker's only state
    _shared = sources
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process


def _paint(number: int, name: str) -> Picture | None:
    return paint(name, _shared[number])
