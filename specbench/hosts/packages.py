"""Packages served instead of the host's own, for one launch: a wheel in a folder of its own.

The folder is put before everything else on the path of the served process (PYTHONPATH), so that the
host's environment stays as it is, byte for byte, and taking it back is removing the folder.
"""

import fcntl
import hashlib
import os
import posixpath
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from specbench.config.packages import Package
from specbench.errors import HostError
from specbench.hosts.command import Launch, python_of
from specbench.model.host import Host
from specbench.remote.shell import Completed, Shell

PLACE = "/var/tmp/specbench-package-"  # noqa: S108 - a service of another user must read it
BUILD_S = 900.0
INSTALL_S = 300.0
VARIABLE = "PYTHONPATH"

_PIP = ("--disable-pip-version-check", "--no-input", "--no-deps", "--no-cache-dir", "--quiet")
_OPENLY = ("sh", "-c", 'umask 022; exec "$@"', "sh")

# What a Python finds for each top-level name in the folders, and whether it lies there.
_ASTRAY = """
import importlib.util, os, sys
for folder in sys.argv[1:]:
    for entry in sorted(os.listdir(folder)):
        name, kind = os.path.splitext(entry)
        inside = os.path.isfile(os.path.join(folder, entry, "__init__.py"))
        if not (inside or kind == ".py") or not name.isidentifier():
            continue
        found = importlib.util.find_spec(name)
        places = [*(found.submodule_search_locations or []), found.origin or ""] if found else []
        if not any(str(place).startswith(folder + os.sep) for place in places):
            print(name, "comes from", places[0] if places else "nowhere")
"""
_SEEN = """
pid=$1; shift
test -r "/proc/$pid/environ" || exit 3
for folder; do
    tr '\\0' '\\n' < "/proc/$pid/environ" | grep '^PYTHONPATH=' | grep -qF -- "$folder" || exit 4
    test -r "/proc/$pid/root$folder" || exit 5
done
"""


def new_folder(package: Package) -> str:
    """Name a folder for a package on a host: by its content, and never one that is there."""
    digest = hashlib.sha256(package.entry.encode() + package.identity.encode()).hexdigest()
    return f"{PLACE}{digest[:12]}-{secrets.token_hex(4)}"


def wheel_of(package: Package) -> tuple[str, bytes]:
    """Return a wheel's file name and content; make it of the commit where there is none yet.

    A made wheel is kept in the user's cache, so that all hosts and launches get the same bytes.
    Raises HostError where it cannot be made here.
    """
    if package.wheel is not None:
        return package.name, Path(package.wheel).read_bytes()
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "specbench" / "wheels" / hashlib.sha256(package.entry.encode()).hexdigest()[:24]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wheels = sorted(folder.glob("*.whl"))
        wheel = wheels[0] if wheels else _build(package, folder)
        return wheel.name, wheel.read_bytes()


def _build(package: Package, folder: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        argv = [sys.executable, "-m", "pip", "wheel", *_PIP, "--wheel-dir", scratch, package.entry]
        # Equal sources should give equal bytes; most build back ends obey this.
        environment = {"SOURCE_DATE_EPOCH": "315532800", "GIT_TERMINAL_PROMPT": "0", **os.environ}
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                env=environment, timeout=BUILD_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise HostError(f"{package.entry} was not built within {BUILD_S:g} s") from None
        made = sorted(Path(scratch).glob("*.whl"))
        if done.returncode or not made:
            raise HostError(
                f"cannot make a wheel of {package.entry}: {_complaint(done.stderr)}",
                where="this machine",
                hint=f"try: {Path(sys.executable).name} -m pip wheel --no-deps '{package.entry}'; "
                "then list the wheel itself under files",
            )
        return made[0].rename(folder / made[0].name)


def install(shell: Shell, host: Host, folder: str, name: str, content: bytes) -> str:
    """Unpack a wheel into a new folder of a host, by the pip of the host's Python; say where.

    Raises HostError where there is no pip, or it refuses the wheel, or nothing can be written.
    """
    made = shell.run(["mkdir", "-m", "755", "--", folder])
    if not made.ok:
        raise HostError(f"cannot make {folder}: {made.complaint}", where=shell.name)
    wheel, library = posixpath.join(folder, name), posixpath.join(folder, "lib")
    shell.write_file(wheel, content)
    # -B, and no configuration of the user's: nothing but the folder may change or decide.
    argv = [*_OPENLY, python_of(host), "-B", "-m", "pip", "install", *_PIP, "--no-index"]
    argv += ["--no-warn-script-location", "--target", library, wheel]
    done = shell.run(argv, env={"PIP_CONFIG_FILE": "/dev/null"}, timeout_s=INSTALL_S)
    shell.remove(wheel)
    if done.ok:
        return library
    if "No module named pip" in done.stderr:
        raise HostError(
            f"{python_of(host)} has no pip, which unpacks {name}",
            where=shell.name,
            hint="install it there (python -m ensurepip, or uv pip install pip), or list the "
            "changed files one by one",
        )
    raise HostError(
        f"pip cannot unpack {name}: {_complaint(done.stderr)}",
        where=shell.name,
        hint="a wheel for another Python or system, a damaged one, or a full disk",
    )


def path_with(libraries: Sequence[str], before: str) -> str:
    """Write the path of the served process: the packages, then what was on it anyway."""
    return ":".join([*libraries, *([before] if before else [])])


def require_first(shell: Shell, host: Host, launch: Launch, libraries: Sequence[str]) -> None:
    """See that the server's own Python finds the packages there and not elsewhere.

    Raises HostError that names what would be served instead.
    """
    own = launch.argv[1:2] == ("-m",)
    python = launch.argv[0] if own else python_of(host)
    env = {VARIABLE: launch.env[VARIABLE]}
    done = shell.run([python, "-B", "-c", _ASTRAY, *libraries], env=env, timeout_s=60.0)
    if not done.ok or done.stdout.strip():
        found = done.stdout.strip().splitlines()
        raise HostError(
            f"the package would not be served: {found[0] if found else done.complaint}",
            where=shell.name,
            hint="something comes before PYTHONPATH there: an import hook of an editable install",
        )


def sees(
    run: Callable[[Sequence[str]], Completed], pid: int | None, folders: Sequence[str]
) -> bool | None:
    """Whether a process has the folders on its path and can reach them; None if that is hidden."""
    if not folders or pid is None:
        return None
    status = run(["sh", "-c", _SEEN, "sh", str(pid), *folders]).status
    return None if status == 3 else status == 0


def remove(shell: Shell, folder: str) -> None:
    """Take a package's folder away. Raises HostError for a path that is none."""
    if not folder.startswith(PLACE) or ".." in folder:
        raise HostError(f"{folder} is no folder of a package", where=shell.name)
    shell.run(["rm", "-rf", "--", folder], timeout_s=120.0)


def _complaint(stderr: str) -> str:
    """Choose the line of pip's that says what is wrong."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", "error:", "fatal:"))]
    return (errors or lines or ["it said nothing"])[0]
