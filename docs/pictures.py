"""Makes the pictures of the documentation, all from real runs: `make docs-pictures`.

    python docs/pictures.py results/demo

The argument is the folder in which `make demo` recorded. Its report is photographed in Chromium;
`run` measures the tutorial's matrix, and what it and other commands show on a terminal of 128
columns becomes an SVG each. Pictures go to docs/assets.
"""

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

from specbench.recording import find_recordings

ASSETS = Path(__file__).parent / "assets"
COLUMNS, ROWS = 128, 60
SPECBENCH = (sys.executable, "-m", "specbench")
_CODE = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


def main() -> None:
    """Make every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path)
    demo = find_recordings(parser.parse_args().demo)[-1]
    report(demo)
    with tempfile.TemporaryDirectory() as folder:
        terminal("run", "docs/tutorial/first.yaml", "--results", folder)
        terminal("status", "--results", folder)
        terminal("compare", "ar", "dflash", "--results", folder)


def report(demo: Path) -> None:
    """Photograph the head of the demo's report, in both themes; take over its overview."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        subprocess.run([*SPECBENCH, "report", str(demo), "-o", folder], check=True)
        for theme, flag in (("light", "1"), ("dark", "2")):
            shot = out / f"{theme}.png"
            subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 f"--user-data-dir={out / theme}", "--window-size=1240,1300",
                 f"--blink-settings=preferredColorScheme={'0' if flag == '2' else '1'}",
                 f"--screenshot={shot}", (out / "findings.html").resolve().as_uri()],
                check=True, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            _shrink(shot, ASSETS / f"report-{theme}.png")
        _shrink(out / "plots" / "r0-overview-light.png", ASSETS / "quickstart.png")


def _shrink(source: Path, target: Path) -> None:
    """Write a PNG with a palette: a page of text and lines needs no more than 256 colours."""
    with Image.open(source) as picture:
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        few.save(target, optimize=True)


def terminal(*words: str) -> None:
    """Run a specbench command in a terminal and draw what stands there at its end."""
    shown = screen(_output(words))
    told = _neutral("\n".join(shown), words)
    name = ["specbench", *(_neutral(word, words) for word in words)]
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(told))
    picture = console.export_svg(title=" ".join(name), unique_id=f"specbench-{words[0]}")
    local = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # no font from elsewhere
    (ASSETS / f"{words[0]}.svg").write_text(local, encoding="utf-8")


def _neutral(text: str, words: tuple[str, ...]) -> str:
    """Write the folder of the recording as in the tutorial."""
    for word in words:
        path = Path(word)
        if path.is_absolute():
            text = text.replace(str(path), "results/tour")
    return text


def _output(words: tuple[str, ...]) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [*SPECBENCH, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    ) as process:
        os.close(theirs)
        content = b"".join(_chunks(ours))
    os.close(ours)
    if process.returncode not in {0, 3, 5}:
        raise SystemExit(f"specbench {' '.join(words)}: exit status {process.returncode}")
    return content.decode()


def _chunks(source: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(source, 65536)
        except OSError:  # Linux says so at the end of a terminal
            return


def screen(output: str) -> list[str]:
    """Give the lines that stand on a terminal after some output: the live part is overwritten.

    Knows what a live display sends: carriage return, line up, erase line; colours stay.
    """
    lines, row = [""], 0
    for found in _CODE.finditer(output):
        text, (parameter, code) = found[0], found.groups()
        if text == "\r":
            continue
        if text == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif code == "A":
            row = max(0, row - int(parameter or 1))
        elif code == "K":
            lines[row] = ""
        elif code is None or code == "m":
            lines[row] += text
    return [line.rstrip() for line in lines[: max(row, 0)]]


if __name__ == "__main__":
    main()
