"""The load generator as one file, alone and on several hosts at once."""

import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError
from specbench.loadgen.remote import Place, drive_from
from specbench.loadgen.zipapp import build, digest
from specbench.model.load import Closed, DriveReport
from specbench.remote.local import LocalShell
from tests.loadgen.scripted import good, make_load, rows, serving

pytestmark = pytest.mark.process


def test_equal_sources_make_equal_artefacts(tmp_path: Path) -> None:
    assert digest(build(tmp_path / "a.pyz")) == digest(build(tmp_path / "b.pyz"))


def test_the_artefact_drives_by_itself(tmp_path: Path) -> None:
    zipapp = build(tmp_path / "load.pyz")
    with serving(good) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=4)
        (tmp_path / "load.json").write_bytes(msgspec.json.encode(load))

        done = subprocess.run(
            [sys.executable, "-I", zipapp, tmp_path / "load.json", "--rows", tmp_path / "rows"],
            capture_output=True,
            check=False,
            timeout=60,
        )

    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout.splitlines()[-1], type=DriveReport).requests == 4
    assert [row.status for row in rows(tmp_path / "rows")] == ["ok"] * 4


@pytest.mark.parametrize(("content", "status"), [(b"{nonsense", 2), (b"", 2), (None, 2)])
def test_a_job_that_is_none_ends_with_status_2(
    content: bytes | None, status: int, tmp_path: Path
) -> None:
    zipapp, load = build(tmp_path / "load.pyz"), tmp_path / "load.json"
    if content is not None:
        load.write_bytes(content)

    done = subprocess.run(
        [sys.executable, zipapp, load, "--rows", tmp_path / "rows"],
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == status
    assert b'"type":"refused"' in done.stdout
    assert b"Traceback" not in done.stderr


def test_the_artefact_holds_only_what_drives_load(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build(tmp_path / "load.pyz")).namelist()

    assert "__main__.py" in names
    assert not any(
        f"specbench/{room}/" in name for room in ("engine", "report", "stats") for name in names
    )


def test_several_hosts_drive_one_load_together(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=4),
            requests=10,
        )
        places = [Place(LocalShell(), sys.executable) for _ in range(2)]

        *_, report = drive_from(places, load, tmp_path / "rows")

    assert isinstance(report, DriveReport)
    assert report.requests == 10
    assert report.accuracy.processes == 2
    found = rows(tmp_path / "rows")
    assert sorted(int(row.rid.rsplit("-", 1)[1]) for row in found) == list(range(10))
    assert {row.worker for row in found} == {0, 1}


def test_a_host_without_that_python_is_named(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}")
        place = Place(LocalShell(), "/nowhere/python")

        with pytest.raises(HostError, match="/nowhere/python"):
            list(drive_from([place], load, tmp_path / "rows"))
