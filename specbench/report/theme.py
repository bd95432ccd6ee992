"""How plots look: one light and one dark theme, readable without colour."""

import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure

ThemeName = Literal["light", "dark"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
PNG_LEVEL = 2
"""zlib level of pictures: a third larger than at 6, and several times faster to write."""

DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (7, 2, 1.5, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours of one theme. `series` keep 3:1 contrast with `paper` (WCAG 1.4.11)."""

    name: ThemeName
    paper: str
    ink: str
    faint: str
    grid: str
    series: tuple[str, ...]


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1b1f24",
    faint="#57606a",
    grid="#d8dee4",
    # Okabe and Ito's palette (safe for colour-blind readers), darkened to 3:1 on white.
    series=("#404850", "#0b6fb0", "#c2410c", "#087f5b", "#a33b80", "#8a6d00", "#2b8ab8", "#7a4419"),
)
DARK = Theme(
    name="dark",
    paper="#14181d",
    ink="#e6e9ec",
    faint="#a3adb8",
    grid="#343b44",
    series=("#b4bcc6", "#58b2ee", "#f58b57", "#3fc99a", "#e58cc6", "#dcc04e", "#8fd3ee", "#cf9f76"),
)
THEMES: dict[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}


@contextmanager
def using(name: ThemeName = "light") -> Iterator[Theme]:
    """Draw in a theme; matplotlib's own settings are as before afterwards."""
    theme = THEMES[name]
    with mpl.rc_context(_settings(theme)):
        yield theme


def current() -> Theme:
    """Give the theme being drawn in; light outside of `using`."""
    return DARK if mpl.rcParams["figure.facecolor"] == DARK.paper else LIGHT


P = ParamSpec("P")
R = TypeVar("R")


def themed(draw: Callable[P, R]) -> Callable[P, R]:
    """Let a plot function draw in the light theme when it is called outside of `using`."""

    @wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> R:
        papers = {theme.paper for theme in THEMES.values()}
        if mpl.rcParams["figure.facecolor"] in papers:
            return draw(*args, **kwargs)
        with using("light"):
            return draw(*args, **kwargs)

    return drawing


def _settings(theme: Theme) -> dict[Any, Any]:
    return {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.titlecolor": theme.ink,
        "axes.edgecolor": theme.faint,
        "xtick.color": theme.faint,
        "ytick.color": theme.faint,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "grid.color": theme.grid,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.labelsize": 9.5,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "lines.linewidth": 1.7,
        "lines.markersize": 5.5,
        "errorbar.capsize": 3,
        "font.family": ["DejaVu Sans"],
        "axes.prop_cycle": cycler(color=list(theme.series)),
        "text.parse_math": False,  # a dollar sign in a name is a dollar sign
        "svg.fonttype": "none",
        "svg.hashsalt": "specbench",
        "figure.dpi": 140,
    }


class ShownFigure(Figure):
    """A figure that a notebook shows; matplotlib's own is shown only where pyplot made it."""

    def _repr_png_(self) -> bytes:
        return png(self)


def new_figure(width: float = 7.2, height: float = 4.2) -> Figure:
    """Make a figure outside of pyplot, so that no window and no global list keeps it."""
    figure = ShownFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float = 7.2, height: float = 4.2) -> Axes:
    """Make the axes of a new figure."""
    axes: Axes = new_figure(width, height).add_subplot()
    return axes


def legend(axes: Axes) -> None:
    """Put the legend beside the axes, where it covers nothing; none for a single line."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), handlelength=3.2)


def caption_axes(axes: Axes, text: str) -> None:
    """Write the caption under the figure of an axes."""
    caption(figure_of(axes), text)


def figure_of(axes: Axes) -> Figure:
    """Give the figure that an axes stands in."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes belong to no figure")
    return figure


def caption(figure: Figure, text: str) -> None:
    """Write the caption under a figure: n, units' meaning, held factors."""
    letters = round(15.5 * figure.get_figwidth())  # of 8 points, in this font
    lines = textwrap.fill(text, letters)
    figure.supxlabel(
        lines, x=0.01, ha="left", fontsize=8, color=current().faint, fontweight="normal"
    )


def svg(figure: Figure) -> str:
    """Render a figure as SVG text; equal figures give equal text.

    The canvas is called directly: `savefig` would draw everything twice.
    """
    buffer = StringIO()
    dpi = figure.dpi  # the SVG canvas sets its own and leaves it
    canvas: Any = FigureCanvasSVG(figure)
    with _any_script(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "specbench"}):
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
    figure.dpi = dpi
    return buffer.getvalue()


def png(figure: Figure) -> bytes:
    """Render a figure as PNG."""
    buffer = BytesIO()
    canvas: Any = FigureCanvasAgg(figure)
    with _any_script():
        canvas.print_png(
            buffer, metadata={"Software": None}, pil_kwargs={"compress_level": PNG_LEVEL}
        )
    return buffer.getvalue()


def freeze(figure: Figure) -> None:
    """Keep the layout of a figure that was rendered, so that it is not computed again."""
    figure.set_layout_engine("none")


def darken(figure: Figure) -> None:
    """Exchange the light theme's colours for the dark one's, in place."""
    exchange = {
        to_hex(light): dark for light, dark in zip(_colours(LIGHT), _colours(DARK), strict=True)
    }
    for artist in figure.findobj():
        for name in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            read = getattr(artist, f"get_{name}", None)
            write = getattr(artist, f"set_{name}", None)
            if read is None or write is None:
                continue
            shown = to_rgba_array(read())
            if len(shown) and shown[0][3] > 0 and (dark := exchange.get(to_hex(shown[0]))):
                write(dark)


def darkened(light: str) -> str:
    """Turn a light SVG into the dark theme: the same picture, each colour exchanged."""
    exchange = dict(zip(_colours(LIGHT), _colours(DARK), strict=True))
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: exchange.get(found[0], found[0]), light)


def variables(light: str) -> str:
    """Turn a light SVG's colours into CSS variables, so that a page's theme decides."""
    names = ("--paper", "--ink", "--faint", "--grid", *(f"--s{n}" for n in range(8)))
    exchange = {c: f"var({name})" for c, name in zip(_colours(LIGHT), names, strict=True)}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: exchange.get(found[0], found[0]), light)


def _colours(theme: Theme) -> tuple[str, ...]:
    return (theme.paper, theme.ink, theme.faint, theme.grid, *theme.series)


@contextmanager
def _any_script() -> Iterator[None]:
    """Draw names in scripts that the font lacks: SVG viewers have other fonts, PNG shows boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from font", category=UserWarning
        )
        yield


def save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `<name>.svg` and `<name>.png` into `folder`; give the two paths."""
    folder.mkdir(parents=True, exist_ok=True)
    vector, pixels = folder / f"{name}.svg", folder / f"{name}.png"
    vector.write_text(svg(figure), encoding="utf-8")
    pixels.write_bytes(png(figure))
    return vector, pixels
