"""Files and packages put on a host for one launch: hashed, recorded, taken back afterwards."""

import contextlib
import hashlib
import posixpath
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from specbench.config.files import SITE, read_entry, split_entry
from specbench.config.packages import Package, is_package, read_package
from specbench.errors import HostError, InputError
from specbench.hosts import packages
from specbench.hosts.command import python_of
from specbench.hosts.state import STATE_DIR
from specbench.model.host import LAUNCHER_TRAITS, Host
from specbench.model.json_text import NOT_JSON
from specbench.remote.shell import FileMissing, Shell

RECORD = f"{STATE_DIR}/deployed.json"
_CHECK = "import sys; compile(sys.stdin.buffer.read(), sys.argv[1], 'exec')"
_PLACE = "import sysconfig; print(sysconfig.get_path('purelib'))"


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """One file: where it came from and went to, its hash, and that of what was there before.

    `kept` is the copy of the original on the host, None where there was none. Of a package,
    `target` is the folder that was made for it, `sha256` that of its wheel, `package` its name,
    `library` what goes on the path, and `commit` what the wheel was made of.
    """

    source: str
    target: str
    sha256: str
    original_sha256: str | None = None
    kept: str | None = None
    mode: int = 0o644
    package: str | None = None
    library: str | None = None
    commit: str | None = None

    @property
    def identity(self) -> str:
        """Say what was put where, equally on every host and of every making of a wheel."""
        return f"{self.package or self.target} {self.commit or self.sha256}"


def code_hash(files: Sequence[Deployed]) -> str | None:
    """Hash all deployed files and packages together; None where there were none."""
    if not files:
        return None
    lines = sorted(file.identity for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@contextlib.contextmanager
def deployed(
    shell: Shell,
    host: Host,
    entries: Sequence[str],
    block_dir: Path,
    *,
    kept: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Deployed, ...]]:
    """Put files on the host; on leaving, put back what was there, unless `kept()` says later.

    Each is checked for syntax with the host's Python, written in one step and read back; packages
    go into folders of their own. Raises InputError for a file that is missing here or is no valid
    Python, HostError where writing or unpacking fails.
    """
    if not entries:
        yield ()
        return
    restore(shell)
    keep = False
    chosen = [read_package(entry) for entry in entries if is_package(entry)]
    single = [entry for entry in entries if not is_package(entry)]
    contents = [(*split_entry(entry), read_entry(entry)) for entry in single]
    done: list[Deployed] = []
    try:
        for package in chosen:
            done.append(_unpack(shell, host, package, done))
        for source, target, content in contents:
            place = _place(shell, host, target)
            _check_syntax(shell, host, source, content)
            done.append(_keep_original(shell, source, place, content))
            shell.write_file(RECORD, msgspec.json.encode(done))
            shell.write_file(place, content, mode=done[-1].mode)
            _require_hash(shell, done[-1])
        (block_dir / "files.json").write_bytes(msgspec.json.format(msgspec.json.encode(done)))
        yield tuple(done)
        keep = kept()
    finally:
        if not keep:
            restore(shell)


def restore(shell: Shell) -> tuple[str, ...]:
    """Put back every original that is still kept on the host; say what was done. Idempotent."""
    try:
        records = msgspec.json.decode(shell.read_file(RECORD), type=list[Deployed])
    except (FileMissing, *NOT_JSON):
        return ()
    said = []
    for record in reversed(records):
        if record.package is not None:
            packages.remove(shell, record.target)
            said.append(f"removed {record.target}")
        elif record.kept is None:
            shell.remove(record.target)
            said.append(f"removed {record.target}")
        elif shell.exists(record.kept):
            shell.write_file(record.target, shell.read_file(record.kept), mode=record.mode)
            shell.remove(record.kept)
            said.append(f"put back the original {record.target}")
    shell.remove(RECORD)
    return tuple(said)


def _unpack(shell: Shell, host: Host, package: Package, before: Sequence[Deployed]) -> Deployed:
    """Unpack a package; its folder is written down first, so that a crash hides nothing."""
    if LAUNCHER_TRAITS[host.launcher].in_container:
        raise InputError(
            f"files entry {package.entry!r}: a package cannot be put into a container",
            hint="build an image with it, and name that",
        )
    name, content = packages.wheel_of(package)
    record = Deployed(
        source=package.entry,
        target=packages.new_folder(package),
        sha256=hashlib.sha256(content).hexdigest(),
        package=package.name,
        commit=package.commit,
    )
    shell.write_file(RECORD, msgspec.json.encode([*before, record]))
    library = packages.install(shell, host, record.target, name, content)
    return msgspec.structs.replace(record, library=library)


def _place(shell: Shell, host: Host, target: str) -> str:
    if not target.startswith(SITE):
        return target
    found = shell.run([python_of(host), "-c", _PLACE])
    if not found.ok or not found.stdout.strip():
        raise HostError(f"cannot find the packages of {python_of(host)}: {found.complaint}")
    return posixpath.join(found.stdout.strip(), target.removeprefix(SITE).lstrip("/"))


def _check_syntax(shell: Shell, host: Host, source: str, content: bytes) -> None:
    if not source.endswith(".py"):
        return
    checked = shell.run([python_of(host), "-I", "-c", _CHECK, source], input=content)
    if not checked.ok:
        raise InputError(
            f"{source} is no valid Python for {python_of(host)}: {checked.complaint}",
            where=shell.name,
        )


def _keep_original(shell: Shell, source: str, target: str, content: bytes) -> Deployed:
    digest = hashlib.sha256(content).hexdigest()
    try:
        original = shell.read_file(target)
    except FileMissing:
        return Deployed(source=source, target=target, sha256=digest)
    mode = shell.run(["stat", "-c", "%a", "--", target]).stdout.strip()
    kept = f"{STATE_DIR}/original-{hashlib.sha256(target.encode()).hexdigest()[:16]}"
    shell.write_file(kept, original)
    return Deployed(
        source=source,
        target=target,
        sha256=digest,
        original_sha256=hashlib.sha256(original).hexdigest(),
        kept=kept,
        mode=int(mode, 8) if mode else 0o644,
    )


def _require_hash(shell: Shell, record: Deployed) -> None:
    read_back = hashlib.sha256(shell.read_file(record.target)).hexdigest()
    if read_back != record.sha256:
        raise HostError(
            f"{record.target} does not hold what was sent (sha256 {read_back[:12]})",
            where=shell.name,
        )
