"""A package is served for one launch, from a folder of its own; nothing of the host's changes."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from specbench.config import pin_files
from specbench.config.packages import read_package
from specbench.errors import HostError, InputError, LoadFailed
from specbench.hosts.deploy import code_hash, deployed, restore
from specbench.hosts.packages import PLACE, remove, sees, wheel_of
from specbench.launchers import Service, launcher_for
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.remote.local import LocalShell
from tests.launchers.conftest import FAKE_SERVER, PATIENCE
from tests.launchers.scripted import ScriptedShell
from tests.launchers.tinyserve import commit, repository, wheel

pytestmark = pytest.mark.process

Make = Callable[..., LaunchSpec]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def spec(spec_of: Make) -> Callable[[str], LaunchSpec]:
    command = ("{python}", "-m", "tinyserve", FAKE_SERVER, "--scenario", "healthy")
    return lambda entry: msgspec.structs.replace(spec_of(), command=command, files=(entry,))


def serve(host: Host, spec: LaunchSpec, folder: Path) -> Service:
    with launcher_for(host, patience=PATIENCE).running(spec, folder) as service:
        list(service.until_ready())
        return service


def placed(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / "files.json").read_text())[0])


def test_a_wheel_is_served_and_its_folder_is_gone_afterwards(
    local: Host, spec: Callable[[str], LaunchSpec], tmp_path: Path
) -> None:
    path = wheel(tmp_path / "dist", "from the wheel")

    service = serve(local, spec(str(path)), tmp_path / "block")

    record = placed(tmp_path / "block")
    assert "serves tinyserve from the wheel" in (tmp_path / "block" / "server.log").read_text()
    assert service.facts.host_facts["server_package"]["version"] == "1.0"
    assert service.facts.code_hash is not None
    assert record["package"] == path.name
    assert record["target"].startswith(PLACE)
    assert not Path(record["target"]).exists()


def test_a_commit_is_made_into_a_wheel_once_and_served(
    local: Host, spec: Callable[[str], LaunchSpec], tmp_path: Path
) -> None:
    url = f"git+file://{repository(tmp_path / 'r', 'first')}@main#subdirectory=python"
    (entry,) = pin_files([url])
    head = commit(tmp_path / "r", "moved on")

    serve(local, spec(entry), tmp_path / "block")

    record = placed(tmp_path / "block")
    wheels = list((tmp_path / "cache").rglob("*.whl"))
    assert "serves tinyserve first" in (tmp_path / "block" / "server.log").read_text()
    assert len(wheels) == 1
    assert record["commit"] in entry
    assert record["commit"] != head


def test_what_was_on_the_path_stays_on_it_behind_the_package(
    local: Host, spec: Callable[[str], LaunchSpec], tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    host = msgspec.structs.replace(local, env={"PYTHONPATH": str(tmp_path / "theirs")})

    serve(host, spec(str(wheel(tmp_path, "w"))), tmp_path / "block")

    path = json.loads((tmp_path / "block" / "launch.json").read_text())["env"]["PYTHONPATH"]
    assert path.split(":") == [placed(tmp_path / "block")["library"], str(tmp_path / "theirs")]


def test_after_a_crash_restore_removes_the_folder_and_nothing_else(
    local: Host, tmp_path: Path
) -> None:
    path = wheel(tmp_path, "w")
    crashed = deployed(LocalShell(), local, [str(path)], tmp_path)
    (record,) = crashed.__enter__()

    during = Path(record.target).exists()
    said = restore(LocalShell())

    assert during
    assert said == (f"removed {record.target}",)
    assert not Path(record.target).exists()
    assert path.exists()
    assert restore(LocalShell()) == ()


def test_equal_code_has_an_equal_hash_wherever_it_was_put(local: Host, tmp_path: Path) -> None:
    hashes = []
    for folder, word in (("first", "x"), ("second", "y"), ("third", "x")):
        path = wheel(tmp_path / folder, word)
        with deployed(LocalShell(), local, [str(path)], tmp_path) as files:
            hashes.append(code_hash(files))

    assert hashes[0] == hashes[2] != hashes[1]


@pytest.mark.parametrize(
    ("status", "stderr", "message"),
    [
        (1, "/usr/bin/python3: No module named pip\n", "has no pip"),
        (1, "ERROR: Wheel 'x' is invalid.\n", "pip cannot unpack .*: ERROR: Wheel 'x' is invalid."),
        (1, "", "it said nothing"),
    ],
)
def test_a_pip_that_refuses_is_one_clear_error_and_leaves_nothing(
    local: Host, tmp_path: Path, status: int, stderr: str, message: str
) -> None:
    shell = ScriptedShell({"sh -c umask": (status, "", stderr)})

    with (
        pytest.raises(HostError, match=message),
        deployed(shell, local, [str(wheel(tmp_path, "w"))], tmp_path),
    ):
        pass

    (made,) = (line.rpartition(" ")[2] for line in shell.asked if line.startswith("mkdir"))
    assert made.startswith(PLACE)
    assert not Path(made).exists()
    assert restore(LocalShell()) == ()


def test_a_wheel_for_another_system_is_refused_in_pips_words(local: Host, tmp_path: Path) -> None:
    path = wheel(tmp_path, "w", tag="cp39-cp39-win_amd64")

    with (
        pytest.raises(HostError, match="is not a supported wheel on this platform"),
        deployed(LocalShell(), local, [str(path)], tmp_path),
    ):
        pass


def test_a_commit_that_cannot_be_built_is_said_with_the_reason(tmp_path: Path) -> None:
    repository(tmp_path / "r", "first")
    (entry,) = pin_files([f"git+file://{tmp_path / 'r'}@main#subdirectory=nowhere"])

    with pytest.raises(HostError, match="cannot make a wheel of git"):
        wheel_of(read_package(entry))

    assert list((tmp_path / "cache").rglob("*.whl")) == []


def test_a_package_that_python_would_not_take_is_never_served_in_silence(
    local: Host, spec: Callable[[str], LaunchSpec], tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs" / "tinyserve"
    theirs.mkdir(parents=True)
    (theirs / "__init__.py").write_text("")
    # As an import hook of an editable install would, this Python puts a folder before PYTHONPATH.
    hooked = tmp_path / "python"
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); exec(sys.argv.pop(1))"
    first = f'{sys.executable} -c "{program}" {theirs.parent} "$@"'
    rest = f'{sys.executable} "$@"'
    hooked.write_text(f'#!/bin/sh\n[ "$2" = -c ] && shift 2 && exec {first}\nexec {rest}\n')
    hooked.chmod(0o755)
    host = msgspec.structs.replace(local, python=str(hooked))

    with pytest.raises(HostError, match="would not be served: tinyserve comes from"):
        serve(host, spec(str(wheel(tmp_path, "w"))), tmp_path / "block")


def test_a_process_that_lost_its_path_is_refused(
    local: Host, spec: Callable[[str], LaunchSpec], tmp_path: Path
) -> None:
    wrapped = msgspec.structs.replace(
        spec(str(wheel(tmp_path, "w"))),
        command=("env", "-u", "PYTHONPATH", sys.executable, FAKE_SERVER, "--scenario", "healthy"),
    )

    with pytest.raises(LoadFailed, match="cannot be seen that the process serves") as failure:
        serve(local, wrapped, tmp_path / "block")

    assert failure.value.pattern == "wrong_code"


def test_a_process_shows_whether_it_has_a_folder_on_its_path(tmp_path: Path) -> None:
    assert sees(LocalShell().run, os.getpid(), [str(tmp_path)]) is False
    assert sees(LocalShell().run, os.getpid(), []) is None
    assert sees(LocalShell().run, None, [str(tmp_path)]) is None
    assert sees(LocalShell().run, 2**22 + 1, [str(tmp_path)]) is None


@pytest.mark.parametrize("path", ["/", "/home/x", f"{PLACE}a/../../etc", ""])
def test_only_a_folder_of_a_package_is_ever_removed(path: str) -> None:
    with pytest.raises(HostError, match="is no folder of a package"):
        remove(LocalShell(), path)


def test_a_package_for_a_container_is_refused(local: Host, tmp_path: Path) -> None:
    boxed = msgspec.structs.replace(local, launcher="docker", image="x")

    with (
        pytest.raises(InputError, match="cannot be put into a container"),
        deployed(LocalShell(), boxed, [str(wheel(tmp_path, "w"))], tmp_path),
    ):
        pass
