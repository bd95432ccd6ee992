"""A package `tinyserve` that serves like the fake server: as a wheel, and as a git repository."""

import base64
import hashlib
import subprocess
import zipfile
from pathlib import Path

MAIN = """\
import runpy, sys
import tinyserve
print("serves tinyserve", tinyserve.WORD, file=sys.stderr, flush=True)
program = sys.argv.pop(1)
runpy.run_path(program, run_name="__main__")
"""
# Builds without anything from anywhere: the standard library writes the wheel (PEP 517).
BACKEND = """\
import pathlib, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "tinyserve-2.0-py3-none-any.whl"
    told = "tinyserve-2.0.dist-info/"
    texts = {f"tinyserve/{p.name}": p.read_text() for p in pathlib.Path("tinyserve").glob("*.py")}
    texts[told + "METADATA"] = "Metadata-Version: 2.1\\nName: tinyserve\\nVersion: 2.0\\n"
    texts[told + "WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    texts[told + "RECORD"] = "".join(f"{path},,\\n" for path in texts)
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as archive:
        for path, text in texts.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return name
"""
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def wheel(folder: Path, word: str, *, tag: str = "py3-none-any") -> Path:
    """Write a wheel whose module says `word`."""
    told = "tinyserve-1.0.dist-info"
    texts = {
        "tinyserve/__init__.py": f"WORD = {word!r}\n",
        "tinyserve/__main__.py": MAIN,
        f"{told}/METADATA": "Metadata-Version: 2.1\nName: tinyserve\nVersion: 1.0\n",
        f"{told}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    lines = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in texts.items()]
    texts[f"{told}/RECORD"] = "\n".join([*lines, f"{told}/RECORD,,"]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"tinyserve-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


def repository(folder: Path, word: str) -> Path:
    """Make a repository with the package in a folder of it."""
    (folder / "python" / "tinyserve").mkdir(parents=True)
    (folder / "python" / "pyproject.toml").write_text(PROJECT)
    (folder / "python" / "backend.py").write_text(BACKEND)
    (folder / "python" / "tinyserve" / "__main__.py").write_text(MAIN)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, word)
    return folder


def commit(folder: Path, word: str) -> str:
    """Change the word, and commit it; return the commit."""
    (folder / "python" / "tinyserve" / "__init__.py").write_text(f"WORD = {word!r}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", word)
    return git(folder, "rev-parse", "HEAD")


def git(folder: Path, *words: str) -> str:
    """Run git as somebody."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
