"""One load driven from other machines: the zipapp on each, started together, rows fetched."""

import os
import queue
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from specbench.errors import DriveFailed, HostError, InputError
from specbench.loadgen.accuracy import merge
from specbench.loadgen.drive import total_progress
from specbench.loadgen.messages import Refused
from specbench.loadgen.schedule import check_load
from specbench.loadgen.zipapp import build
from specbench.model.json_text import NOT_JSON
from specbench.model.load import DriveEvent, DriveProgress, DriveReport, LoadSpec
from specbench.remote.shell import Shell

LEAD_S = 5.0
"""From the last look at a host's clock to the common start: imports, connections, prompts."""
FETCH_BYTES = 4 << 20

Said = DriveProgress | DriveReport | Refused
_decode: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


class Place(msgspec.Struct, frozen=True):
    """A machine to drive from: its shell and the Python there (3.11 or newer, with msgspec)."""

    shell: Shell
    python: str


def drive_from(
    places: Sequence[Place], load: LoadSpec, sink: Path
) -> Generator[DriveEvent, None, None]:
    """Drive one load from several machines at once, as `drive` does from this one.

    Each place takes every n-th request and its part of the concurrency. Starts coincide by each
    host's own clock, whose offset is measured over the shell: half a round trip is its error.

    Raises HostError naming the host, InputError for the load.
    """
    check_load(load)
    with tempfile.TemporaryDirectory(prefix="specbench-load-") as scratch:
        zipapp = build(Path(scratch) / "specbench-load.pyz").read_bytes()
    parts = [_Part(place, number, len(places)) for number, place in enumerate(places)]
    heard: queue.Queue[tuple[_Part, Said | HostError]] = queue.Queue()
    try:
        for part in parts:
            part.prepare(load, zipapp)
        start_unix_ns = time.time_ns() + int(LEAD_S * 1e9)
        for part in parts:
            part.start(start_unix_ns, heard)
        reports = yield from _follow(parts, heard)
        for part in parts:
            part.fetch(sink)
    finally:
        for part in parts:
            part.stop()
    yield msgspec.structs.replace(merge(reports), start_unix_ns=start_unix_ns)


def _follow(
    parts: Sequence["_Part"], heard: "queue.Queue[tuple[_Part, Said | HostError]]"
) -> Generator[DriveProgress, None, list[DriveReport]]:
    reports: list[DriveReport] = []
    latest: dict[int, DriveProgress] = {}
    while len(reports) < len(parts):
        part, said = heard.get()
        match said:
            case DriveReport():
                reports.append(said)
            case DriveProgress():
                latest[part.number] = said
                if len(latest) == len(parts):
                    yield total_progress(list(latest.values()))
                    latest.clear()
            case Refused():
                raise said.error(part.name)
            case HostError():
                raise said
    return reports


class _Part:
    """One host's part of the drive."""

    def __init__(self, place: Place, number: int, of: int) -> None:
        self.number = number
        self.name = place.shell.name
        self._shell = place.shell
        self._python = place.python
        self._of = of
        self._folder = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def prepare(self, load: LoadSpec, zipapp: bytes) -> None:
        """Put the zipapp, the prompts, the load and the key on the host."""
        made = self._shell.run(["mktemp", "-d"])
        if not made.ok:
            raise HostError(f"{self.name}: cannot make a folder: {made.complaint}")
        self._folder = made.stdout.strip()
        there = msgspec.structs.replace(load, prompts_path=f"{self._folder}/prompts.jsonl")
        self._shell.write_file(f"{self._folder}/load.pyz", zipapp)
        self._shell.write_file(f"{self._folder}/prompts.jsonl", _read(load.prompts_path))
        self._shell.write_file(f"{self._folder}/load.json", msgspec.json.encode(there))
        key = os.environ.get(load.target.api_key_env or "")
        if key:
            self._shell.write_file(f"{self._folder}/key", key.encode(), mode=0o600)

    def start(
        self, start_unix_ns: int, heard: "queue.Queue[tuple[_Part, Said | HostError]]"
    ) -> None:
        """Start the zipapp; what it says goes to `heard`."""
        argv = [
            self._python,
            f"{self._folder}/load.pyz",
            f"{self._folder}/load.json",
            *("--rows", f"{self._folder}/rows.jsonl"),
            *("--share", f"{self.number}/{self._of}"),
            *("--start-at", str(start_unix_ns + self._clock_offset_ns())),
        ]
        if self._shell.exists(f"{self._folder}/key"):
            argv += ["--key-file", f"{self._folder}/key"]
        self._thread = threading.Thread(target=self._listen, args=(argv, heard), daemon=True)
        self._thread.start()

    def fetch(self, sink: Path) -> None:
        """Append the host's rows to the sink."""
        with sink.open("ab") as rows:
            offset = 0
            while True:
                piece = self._shell.read_file(
                    f"{self._folder}/rows.jsonl", offset=offset, limit=FETCH_BYTES
                )
                if not piece:
                    return
                rows.write(piece)
                offset += len(piece)

    def stop(self) -> None:
        """End what runs, and take the folder away."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(15.0)
        if self._folder:
            self._shell.run(["rm", "-rf", "--", self._folder])

    def _clock_offset_ns(self) -> int:
        """Measure the host's wall clock against ours: the tightest of three looks."""
        looks = [self._look_at_clock() for _ in range(3)]
        return min(looks)[1]

    def _look_at_clock(self) -> tuple[int, int]:
        before = time.time_ns()
        told = self._shell.run([self._python, "-c", "import time; print(time.time_ns())"])
        after = time.time_ns()
        if not told.ok:
            raise HostError(f"{self.name}: cannot run {self._python}: {told.complaint}")
        # Python's own start takes most of the call, so the answer belongs near its end.
        return after - before, int(told.stdout) - after

    def _listen(
        self, argv: list[str], heard: "queue.Queue[tuple[_Part, Said | HostError]]"
    ) -> None:
        last = "nothing was said"
        try:
            with self._shell.follow(argv) as lines:
                while not self._stopping.is_set():
                    line = lines.poll(0.5)
                    if line is None:
                        if lines.status is not None:
                            break
                        continue
                    last = line
                    if line.startswith('{"type":'):
                        said = _decode.decode(line)
                        heard.put((self, said))
                        if isinstance(said, DriveReport):
                            return
        except HostError as error:
            heard.put((self, error))
            return
        except NOT_JSON as error:
            last = f"{last} ({error})"
        heard.put((self, DriveFailed(f"{self.name}: the load generator there ended: {last}")))


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the prompts: {error.strerror}", where=path) from None
