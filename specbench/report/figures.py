"""Pictures of a report: each plot in both themes, drawn beside its text where cores allow."""

import ctypes
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specbench.report import plots, theme
from specbench.report.inputs import Evidence
from specbench.report.plots.acceptance import INTERVALS, factor_of
from specbench.report.plots.latency import latencies_words
from specbench.report.plots.panels import by_temperature
from specbench.report.plots.series import MEANS
from specbench.report.plots.speed import ratios_words

Draw = Callable[[Evidence], Figure]


def _of_axes(draw: Callable[[Evidence], Axes]) -> Draw:
    def figure_of(evidence: Evidence) -> Figure:
        return theme.figure_of(draw(evidence))

    return figure_of


def _speedup(evidence: Evidence) -> Figure:
    return by_temperature(plots.speedup, evidence, ratios_words(evidence))


def _per_user(evidence: Evidence) -> Figure:
    return by_temperature(plots.per_user, evidence, MEANS)


def _accept_len(evidence: Evidence) -> Figure:
    by = factor_of(evidence.trials)
    if by == "temperature":
        return theme.figure_of(plots.accept_len(evidence, by))
    return by_temperature(
        lambda one, axes, where: plots.accept_len(one, by, axes, where), evidence, INTERVALS
    )


def _latency(evidence: Evidence) -> Figure:
    return by_temperature(
        lambda one, axes, where: plots.latency(one, "ttft_ms", axes, where),
        evidence,
        latencies_words(evidence),
    )


# Throughput alone is left out: it is the upper half of the overview.
TITLES: dict[str, tuple[str, Draw]] = {
    "overview": ("Throughput and accept_len against load", lambda e: plots.overview(e.trials)),
    "speedup": ("Speed-up over the control", _speedup),
    "per_user": ("Speed per user against load", _per_user),
    "pareto": ("Throughput against speed per user", _of_axes(plots.pareto)),
    "decomposition": ("What each speed-up is made of", _of_axes(plots.decomposition)),
    "accept_len": ("accept_len by factor", _accept_len),
    "acceptance_by_position": ("Acceptance by draft position",
                               _of_axes(plots.acceptance_by_position)),
    "acceptance_histogram": ("Drafts accepted in a verify step",
                             _of_axes(plots.acceptance_histogram)),
    "latency": ("Distribution of the time to first token", _latency),
    "load_phases": ("Where the launches spent their load time", _of_axes(plots.load_phases)),
    "gpu": ("GPU power and temperature over one launch", _of_axes(plots.gpu)),
    "lossless": ("Claims of losslessness", _of_axes(plots.lossless)),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One plot, rendered; `caption` says n and what was held, `alt` what is on the axes.

    `foot` is the height of the caption inside the picture, in points: a page that writes it as
    text leaves it out.
    """

    name: str
    title: str
    alt: str
    caption: str
    foot: float
    light_svg: str
    light_png: bytes
    dark_png: bytes

    def write(self, folder: Path, prefix: str = "") -> None:
        """Write the four files of this picture into a folder, their names after `prefix`."""
        for name, content in (
            (f"{self.name}-light.svg", self.light_svg.encode()),
            (f"{self.name}-dark.svg", theme.darkened(self.light_svg).encode()),
            (f"{self.name}-light.png", self.light_png),
            (f"{self.name}-dark.png", self.dark_png),
        ):
            (folder / f"{prefix}{name}").write_bytes(content)


def draw_picture(name: str, evidence: Evidence) -> Picture | None:
    """Draw one plot in both themes; None where the recording has nothing to show in it."""
    title, draw = TITLES[name]
    if not _has_content(name, evidence):
        return None
    with theme.using("light"):
        figure = draw(evidence)
        caption = " ".join(figure.get_supxlabel().split())
        light_png, dark_png = theme.pngs(figure)
        theme.freeze(figure)
        foot = theme.caption_height(figure)
        light_svg = theme.svg(figure)
        alt = f"{title}. {_axes_text(figure)} {caption}".strip()
    return Picture(
        name=name,
        title=title,
        alt=alt,
        caption=caption,
        foot=foot,
        light_svg=light_svg,
        light_png=light_png,
        dark_png=dark_png,
    )


def _axes_text(figure: Figure) -> str:
    first, last = figure.axes[0], figure.axes[-1]
    labels = [str(label) for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
    lines = f" Series: {', '.join(dict.fromkeys(labels))}." if labels else ""
    return f"Horizontal: {last.get_xlabel()}. Vertical: {first.get_ylabel()}.{lines}"


def _has_content(name: str, evidence: Evidence) -> bool:
    match name:
        case "gpu":
            return bool(evidence.gpu)
        case "lossless":
            return any(document.claims for document in evidence.verdicts)
        case "acceptance_by_position" | "acceptance_histogram":
            return bool(evidence.histograms)
        case "load_phases":
            return any(facts.phase_times for facts in evidence.blocks.values())
        case "latency":
            return not evidence.requests.empty
        case _:
            return bool((evidence.trials["status"] == "ok").any())


COMPARING = frozenset({"speedup", "decomposition"})
"""Pictures of comparisons: drawn where the text needs the comparisons too, so made once."""

PR_SET_PDEATHSIG = 1  # of prctl(2); drawing in parallel is for Linux alone

_shared: tuple[Evidence, ...] = ()


class Drawings:
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
        return draw_picture(name, self._sources[number])


@contextmanager
def drawings(sources: Sequence[Evidence]) -> Iterator[Drawings]:
    """Begin to draw what needs no comparison; the caller goes on and fetches it at the end."""
    cores = _cores()
    if cores < 2:
        yield Drawings(sources, {})
        return
    theme.darkening()  # here, so that every worker has it
    gc.freeze()  # the collector shall not walk through, and so copy, what the workers share
    with ProcessPoolExecutor(
        cores,
        mp_context=get_context("fork"),
        initializer=_share,
        initargs=(tuple(sources), os.getpid()),
    ) as pool:
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of forks beside threads. These are idle ones of the linear
                # algebra library, which has fork handlers; _cores sees to it that we have none.
                warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
                begun = {
                    (number, name): pool.submit(_draw_shared, number, name)
                    for number in range(len(sources))
                    for name in TITLES
                    if name not in COMPARING
                }
            yield Drawings(sources, begun)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            gc.unfreeze()


def _cores() -> int:
    """Cores to draw on; 1 where a fork would not be safe: other systems, or threads at work."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return len(os.sched_getaffinity(0))


def _share(sources: tuple[Evidence, ...], parent: int) -> None:
    """Take the evidence as the fork left it in memory: nothing is copied or pickled.

    A worker waits for work for ever, so the kernel is asked to end it with its parent.
    """
    global _shared  # noqa: PLW0603 - a worker's only state
    _shared = sources
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before that was asked
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process


def _draw_shared(number: int, name: str) -> Picture | None:
    return draw_picture(name, _shared[number])
