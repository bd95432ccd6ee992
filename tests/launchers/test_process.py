"""The process launcher: waits, explains, stops everything that it started and nothing else."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError, LoadFailed
from specbench.hosts.agent.supervisor import start_ticks
from specbench.hosts.checks import check_port
from specbench.launchers import Service, launcher_for
from specbench.launchers.restoring import restore_everything
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadProgress
from specbench.remote.local import LocalShell
from tests.launchers.clients import CLIENT, kill_when_ready
from tests.launchers.conftest import PATIENCE

pytestmark = pytest.mark.process

Make = Callable[..., LaunchSpec]


def load(host: Host, spec: LaunchSpec, folder: Path) -> tuple[list[LoadProgress], Service]:
    with launcher_for(host, patience=PATIENCE).running(spec, folder) as service:
        return list(service.until_ready()), service


def port_is_free(host: Host) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(host.url.rpartition(":")[2]))) != 0


def children_in(log: Path) -> list[int]:
    lines = log.read_text().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("child ")]


def test_a_healthy_server_is_waited_out_identified_and_stopped(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    spec = spec_of()

    progress, service = load(local, spec, tmp_path)

    assert [p.phase for p in progress][-3:] == ["checking"] * 3
    assert any(p.phase == "weights" and p.fraction == 0.5 for p in progress)
    assert service.facts.version == "0.5.23"
    assert service.facts.pid is not None
    assert start_ticks(service.facts.pid) is None
    assert port_is_free(local)


def test_the_recording_gets_log_launch_and_server_info_without_secrets(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    load(local, spec_of(), tmp_path)

    launch = json.loads((tmp_path / "launch.json").read_text())
    assert "/models/a b'c$(id)" in launch["argv"]
    assert "ready to roll" in (tmp_path / "server.log").read_text()
    assert "environment: one 'two' $(three)" in (tmp_path / "server.log").read_text()
    assert json.loads((tmp_path / "server_info.json").read_text())["api_key"] == "***"


def test_a_key_in_the_command_that_the_server_prints_is_in_no_file_of_the_block(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    spec = spec_of()
    prints = ("sh", "-c", 'echo "my key is $1"; shift; exec "$@"', "sh")
    command = (*prints, "--api-key=not-for-others", *spec.command)
    host = msgspec.structs.replace(local, command=command)

    load(host, msgspec.structs.replace(spec, command=()), tmp_path / "block")

    files = [path for path in (tmp_path / "block").rglob("*") if path.is_file()]
    assert "my key is --api-key=***" in (tmp_path / "block" / "server.log").read_text()
    assert [path.name for path in files if b"not-for-others" in path.read_bytes()] == []
    words = [path for path in files if path.suffix != ".csv"]  # those hold figures alone
    assert {path.stat().st_mode & 0o777 for path in words} == {0o600}


@pytest.mark.parametrize(
    ("scenario", "pattern", "cause"),
    [
        ("oom", "cuda_oom", "CUDA out of memory while capturing graphs"),
        ("exits-silently", "exited", "exit status 3"),
        ("fatal-line-but-lives", "scheduler_exception", "RuntimeError: boom 17"),
        ("hangs", "stuck", "no sign of work"),
        ("canary-fails", "canary_failed", "no kernel image"),
    ],
)
def test_a_failed_load_is_explained_by_its_own_cause_and_leaves_nothing(
    scenario: str, pattern: str, cause: str, local: Host, spec_of: Make, tmp_path: Path
) -> None:
    with pytest.raises(LoadFailed) as failure:
        load(local, spec_of(scenario), tmp_path)

    assert failure.value.pattern == pattern
    assert cause in failure.value.what
    assert failure.value.hint
    assert failure.value.log_tail
    assert port_is_free(local)


def test_a_command_that_does_not_exist_is_said_at_once(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    spec = LaunchSpec(
        fingerprint="f", algorithm="ar", speculative=False, model_path="m", served_name="m",
        command=("/no/such/program",),
    )  # fmt: skip

    with pytest.raises(LoadFailed, match=r"/no/such/program.*No such file") as failure:
        load(local, spec, tmp_path)

    assert failure.value.pattern == "cannot_start"


def test_a_port_in_use_is_found_before_the_start(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(local.url.rpartition(":")[2])))
        taken.listen()

        with pytest.raises(HostError, match=f"in use by pid {os.getpid()}"):
            load(local, spec_of(), tmp_path)

    assert not (tmp_path / "server.log").exists()


@pytest.mark.parametrize(
    ("words", "speculative", "pattern"),
    [
        (("--claim-model", "/models/other"), False, "wrong_model"),
        (("--speculative-algorithm", "NGRAM"), False, "args_mismatch"),
    ],
)
def test_a_server_of_another_identity_is_not_measured(
    words: tuple[str, ...], speculative: bool, pattern: str,
    local: Host, spec_of: Make, tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(LoadFailed, match="not the one that was asked for") as failure:
        load(local, spec_of("healthy", *words, speculative=speculative), tmp_path)

    assert failure.value.pattern == pattern


@pytest.mark.parametrize("scenario", ["children", "ignores-sigterm"])
def test_no_descendant_survives_the_stop(
    scenario: str, local: Host, spec_of: Make, tmp_path: Path
) -> None:
    load(local, spec_of(scenario), tmp_path)

    pids = children_in(tmp_path / "server.log")
    assert len(pids) == 2
    assert [start_ticks(pid) for pid in pids] == [None, None]
    assert port_is_free(local)


def test_an_error_in_the_block_stops_the_server_and_stays_the_error(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    def interrupted() -> None:
        with launcher_for(local, patience=PATIENCE).running(spec_of(), tmp_path) as service:
            list(service.until_ready())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert port_is_free(local)


def test_a_death_between_trials_is_noticed_and_explained(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    with launcher_for(local, patience=PATIENCE).running(spec_of(), tmp_path) as service:
        list(service.until_ready())
        before = service.check()
        assert service.facts.pid is not None
        os.kill(service.facts.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (after := service.check()) is None and time.monotonic() < deadline:
            time.sleep(0.02)

    assert before is None
    assert after is not None
    assert "signal 9" in after.cause


def test_a_killed_client_leaves_no_server(local: Host, spec_of: Make, tmp_path: Path) -> None:
    server = kill_when_ready(local, spec_of("children"), tmp_path)
    pids = [server, *children_in(tmp_path / "server.log")]
    deadline = time.monotonic() + 10
    while any(start_ticks(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert [start_ticks(pid) for pid in pids] == [None, None, None]


KEEPING = CLIENT.replace("sys.stdin.read()", "service.keep()")


def test_a_kept_server_outlives_its_client_until_the_next_launch_or_a_restore(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    arguments = [msgspec.json.encode(item).decode() for item in (local, spec_of("children"))]

    def kept_by_a_client(folder: Path) -> int:
        argv = [sys.executable, "-c", KEEPING, *arguments, str(folder)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        return int(done.stdout.split()[1])

    first = kept_by_a_client(tmp_path / "first")
    wait_out_the_owner_check()
    lived = start_ticks(first)
    second = kept_by_a_client(tmp_path / "second")
    replaced = start_ticks(first)
    with closing(LocalShell()) as shell:
        (check,) = check_port(local, shell)
        (said,) = restore_everything(local, shell, break_lock=False)

    assert lived is not None
    assert replaced is None
    assert (check.state, f"(pid {second})" in check.found) == ("warning", True)
    assert said.found.endswith(f"(pid {second})")
    assert start_ticks(second) is None
    assert [start_ticks(pid) for pid in children_in(tmp_path / "second" / "server.log")] == [
        None
    ] * 2
    assert port_is_free(local)


def wait_out_the_owner_check() -> None:
    """Let the supervisor look for its owner twice: it does so every half second."""
    time.sleep(1.2)


def test_an_error_stops_even_a_server_that_was_to_be_kept(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    def failing() -> None:
        with launcher_for(local, patience=PATIENCE).running(spec_of(), tmp_path) as service:
            service.keep()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()

    assert port_is_free(local)


def test_what_a_killed_run_left_behind_is_cleaned_and_a_living_one_respected(
    local: Host, spec_of: Make, tmp_path: Path
) -> None:
    launcher = launcher_for(local, patience=PATIENCE)
    with launcher.running(spec_of(), tmp_path) as service:
        list(service.until_ready())

        with pytest.raises(HostError, match=rf"another specbench \(pid {os.getpid()}\)"):
            load(local, spec_of(), tmp_path / "second")

        state_path = next(Path(os.environ["HOME"]).rglob("service-*.json"))
        state = json.loads(state_path.read_text())
        state_path.write_text(json.dumps({**state, "owner": None}))
        progress, _ = load(local, spec_of(), tmp_path / "third")

    assert progress
    assert start_ticks(int(state["pid"])) is None
