"""The load generator as one file that runs by itself where a server's Python environment is.

A zipapp of this package's own modules. It needs Python 3.11 and msgspec, which is found there;
httptools where it is there, else h11, which comes with uvicorn (see http1).
"""

import hashlib
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_MODULES = (Path("errors.py"),)
_PACKAGES = ("model", "backends", "loadgen")
_WITH_LIBRARIES = frozenset({Path("backends/client.py"), Path("backends/sender.py")})
"""Modules that need more than the standard library and msgspec."""
_MAIN = b"from specbench.loadgen.standalone import main\n\nmain()\n"
_ROOT = b'"""The part of specbench that drives load."""\n'
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(path: Path) -> Path:
    """Write the zipapp and give its path. Equal sources make equal bytes."""
    members = {"__main__.py": _MAIN, "specbench/__init__.py": _ROOT}
    own = sorted(
        source.relative_to(_PACKAGE)
        for name in _PACKAGES
        for source in (_PACKAGE / name).rglob("*.py")
    )
    for module in (*_MODULES, *(path for path in own if path not in _WITH_LIBRARIES)):
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
    """Give the SHA-256 of a zipapp: what a recording says drove its load."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
