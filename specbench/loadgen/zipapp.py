"""The load generator as one file that runs by itself where an SGLang environment is.

A zipapp of this package's own modules. It needs Python 3.11 and msgspec, which SGLang depends on;
httptools where it is there, else h11, which comes with uvicorn (see http1).
"""

import hashlib
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_MODULES = (
    "errors.py",
    "model/__init__.py",
    "model/load.py",
    "backends/__init__.py",
    "backends/sglang/__init__.py",
    "backends/sglang/replies.py",
    "backends/sglang/requests.py",
)
_MAIN = b"from specbench.loadgen.standalone import main\n\nmain()\n"
_ROOT = b'"""The part of specbench that drives load."""\n'
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(path: Path) -> Path:
    """Write the artefact and give its path. Equal sources make equal bytes."""
    members = {"__main__.py": _MAIN, "specbench/__init__.py": _ROOT}
    own = sorted(source.relative_to(_PACKAGE) for source in (_PACKAGE / "loadgen").rglob("*.py"))
    for module in (*map(Path, _MODULES), *own):
        members[f"specbench/{module.as_posix()}"] = (_PACKAGE / module).read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    path.chmod(0o755)
    return path


def digest(path: Path) -> str:
    """Give the SHA-256 of an artefact: what a recording says drove its load."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
