"""How plots look: one light and one dark theme, readable without colour."""

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image, ImageFilter

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
        "text.hinting": "none",  # a fifth less time a picture, and no difference at this size
        "figure.dpi": 140,
    }


class ShownFigure(Figure):
    """A figure that a notebook shows; matplotlib's own is shown only where pyplot made it."""

    def _repr_png_(self) -> bytes:
        return png(self)


WIDTH, HEIGHT = 5.6, 3.3
"""Inches of a figure with one panel, before its legend."""

LINE = 0.18
"""Inches of a line of a legend."""


def new_figure(width: float = WIDTH, height: float = HEIGHT) -> Figure:
    """Make a figure outside of pyplot, so that no window and no global list keeps it."""
    figure = ShownFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float = WIDTH, height: float = HEIGHT) -> Axes:
    """Make the axes of a new figure."""
    axes: Axes = new_figure(width, height).add_subplot()
    return axes


def legend(axes: Axes) -> None:
    """Put the legend over the axes, where it covers nothing.

    A figure of ours grows by the lines of the legend, so that the axes keep their height.
    """
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    figure = figure_of(axes)
    columns = _columns(labels, figure.get_figwidth() - 0.6)
    axes.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=columns, **_SPACING
    )
    _grow(figure, len(labels), columns)


def figure_legend(figure: Figure) -> None:
    """Put one legend over all panels of a figure, with every label of any panel once."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(str(label), handle)
    if found:
        columns = _columns(list(found), figure.get_figwidth() - 0.3)
        figure.legend(
            list(found.values()), list(found), loc="outside upper left", ncols=columns, **_SPACING
        )
        _grow(figure, len(found), columns)


_SPACING: dict[str, Any] = {
    "handlelength": 2.6, "columnspacing": 1.6, "labelspacing": 0.35, "borderaxespad": 0.2,
}  # fmt: skip


def _columns(labels: list[str], width: float) -> int:
    """Columns of a legend that fit into `width` inches; a letter of 8.5 points has 0.068."""
    longest = max(len(label) for label in labels)
    return max(1, min(len(labels), int(width / (0.068 * longest + 0.62))))


def _grow(figure: Figure, labels: int, columns: int) -> None:
    if isinstance(figure, ShownFigure):
        figure.set_figheight(figure.get_figheight() + LINE * math.ceil(labels / columns))


def plain_numbers(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis as numbers, not as powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def finish(axes: Axes, given: Axes | None, text: str) -> Axes:
    """Give a figure of ours its legend and caption; axes that were given belong to the caller."""
    if given is None:
        legend(axes)
        caption(figure_of(axes), text)
    return axes


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
    ).set_gid("caption")


def caption_height(figure: Figure) -> float:
    """Points from the lower edge of a drawn figure to the top of its caption; 0 without one."""
    found = [artist for artist in figure.texts if artist.get_gid() == "caption"]
    return max((a.get_window_extent().y1 * 72 / figure.dpi + 3 for a in found), default=0.0)


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
    return _packed(pixels(figure))


def pixels(figure: Figure) -> Image.Image:
    """Render a figure as pixels, red, green and blue."""
    canvas: Any = FigureCanvasAgg(figure)
    with _any_script():
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3])


def pngs(figure: Figure) -> tuple[bytes, bytes]:
    """Render a figure of the light theme as PNG in both themes, drawing it once."""
    light = pixels(figure)
    return _packed(light), _packed(darkened_pixels(light))


def _packed(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, "png", compress_level=PNG_LEVEL)
    return buffer.getvalue()


def freeze(figure: Figure) -> None:
    """Keep the layout of a figure that was rendered, so that it is not computed again."""
    figure.set_layout_engine("none")


def darkened_pixels(light: Image.Image) -> Image.Image:
    """Turn light pixels into the dark theme's through a table of colours.

    A picture is drawn in a dozen colours on paper and in mixtures of each with the paper, so the
    table knows what becomes of every pixel; drawing it again would take ten times as long.
    """
    return light.filter(darkening())


@cache
def darkening() -> ImageFilter.Color3DLUT:
    """Give that table: each colour's nearest mixture with the paper, mixed of dark colours."""
    side = 33  # steps a channel; between them the table is interpolated
    level = np.linspace(0.0, 1.0, side)
    blue, green, red = np.meshgrid(level, level, level, indexing="ij")  # red varies fastest
    colours = np.stack([red, green, blue], axis=-1).reshape(-1, 3)
    light, dark = (to_rgba_array(_colours(theme))[:, :3] for theme in (LIGHT, DARK))
    to_ink = light[1:] - light[0]
    share = ((colours - light[0]) @ to_ink.T) / (to_ink**2).sum(axis=1)
    share = share.clip(0.0, 1.0)
    off = ((light[0] + share[..., None] * to_ink - colours[:, None]) ** 2).sum(axis=2)
    # Greys lie on one ray: among colours as near, the one that needs the largest share.
    nearest = np.argmin(off - 1e-3 * share, axis=1)
    share = share[np.arange(len(colours)), nearest, None]
    mixed = dark[0] + share * (dark[1:][nearest] - dark[0])
    return ImageFilter.Color3DLUT(side, mixed.ravel().tolist())


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


def save(figure: Figure, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write `<name>.svg` and `<name>.png` into `folder`; give the two paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    vector, pixels = folder / f"{name}.svg", folder / f"{name}.png"
    vector.write_text(svg(figure), encoding="utf-8")
    pixels.write_bytes(png(figure))
    return vector, pixels
