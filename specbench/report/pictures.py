"""Pictures of a report: each plot in both themes, as SVG and PNG, with a text in their place."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specbench.report import plots, theme
from specbench.report.evidence import Evidence

Draw = Callable[[Evidence], Figure]


def _of_axes(draw: Callable[[Evidence], Axes]) -> Draw:
    def figure_of(evidence: Evidence) -> Figure:
        return theme.figure_of(draw(evidence))

    return figure_of


TITLES: dict[str, tuple[str, Draw]] = {
    "overview": ("Throughput and accept_len against load", lambda e: plots.overview(e.trials)),
    "speedup": ("Speed-up over the control", _of_axes(plots.speedup)),
    "throughput": ("Throughput against load", _of_axes(plots.throughput)),
    "per_user": ("Speed per user against load", _of_axes(plots.per_user)),
    "pareto": ("Throughput against speed per user", _of_axes(plots.pareto)),
    "decomposition": ("What each speed-up is made of", _of_axes(plots.decomposition)),
    "accept_len": ("accept_len by factor", _of_axes(plots.accept_len)),
    "acceptance_by_position": ("Acceptance by draft position",
                               _of_axes(plots.acceptance_by_position)),
    "acceptance_histogram": ("Drafts accepted in a verify step",
                             _of_axes(plots.acceptance_histogram)),
    "latency": ("Distribution of the time to first token", _of_axes(plots.latency)),
    "load_phases": ("Where the launches spent their load time", _of_axes(plots.load_phases)),
    "gpu": ("GPU power and temperature over one launch", _of_axes(plots.gpu)),
    "lossless": ("Claims of losslessness", _of_axes(plots.lossless)),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One plot, rendered; `caption` says n and what was held, `alt` what is on the axes."""

    name: str
    title: str
    alt: str
    caption: str
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


def paint(name: str, evidence: Evidence) -> Picture | None:
    """Draw one plot in both themes; None where the recording has nothing to show in it."""
    title, draw = TITLES[name]
    if not _has_content(name, evidence):
        return None
    with theme.using("light"):
        figure = draw(evidence)
        caption = " ".join(figure.get_supxlabel().split())
        light_png = theme.png(figure)
        theme.freeze(figure)
        light_svg = theme.svg(figure)
        alt = f"{title}. {_axes_text(figure)} {caption}".strip()
        theme.darken(figure)
        dark_png = theme.png(figure)
    return Picture(
        name=name,
        title=title,
        alt=alt,
        caption=caption,
        light_svg=light_svg,
        light_png=light_png,
        dark_png=dark_png,
    )


def _axes_text(figure: Figure) -> str:
    first, last = figure.axes[0], figure.axes[-1]
    labels = first.get_legend_handles_labels()[1]
    lines = f" Series: {', '.join(dict.fromkeys(labels))}." if labels else ""
    return f"Horizontal: {last.get_xlabel()}. Vertical: {first.get_ylabel()}.{lines}"


def _has_content(name: str, evidence: Evidence) -> bool:
    match name:
        case "gpu":
            return bool(evidence.gpu)
        case "lossless":
            return any(document.get("claims") for document in evidence.verdicts)
        case "acceptance_by_position" | "acceptance_histogram":
            return bool(evidence.histograms)
        case "load_phases":
            return any(facts.get("phase_times") for facts in evidence.blocks.values())
        case "latency":
            return not evidence.requests.empty
        case _:
            return bool((evidence.trials["status"] == "ok").any())
