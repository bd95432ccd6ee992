"""The container launcher's command line, and its reading of a log by time stamps."""

import msgspec
import pytest

from specbench.errors import HostError, InputError
from specbench.hosts.command import Launch
from specbench.launchers import launcher_for
from specbench.launchers.docker import ContainerLog, cli_of, run_arguments
from specbench.launchers.launcher import starter_for
from specbench.model.host import Address, Host
from tests.launchers.scripted import ScriptedShell

HOST = Host(
    name="h",
    launcher="docker",
    image="lmsysorg/sglang:v0.5.23",
    container={"mounts": ("/models:/models:ro", "/a b:/c"), "gpus": "all", "args": ("--ipc=host",)},
)
LAUNCH = Launch(
    argv=("python3", "-m", "sglang.launch_server", "--model-path", "/m"),
    env={"HF_TOKEN": "sesame"},
    address=Address(host="127.0.0.1", port=30000),
)


def test_the_command_has_image_mounts_and_devices_and_no_secret() -> None:
    assert run_arguments(HOST, LAUNCH, "specbench-30000") == [
        "docker", "run", "--detach", "--name=specbench-30000", "--label=specbench=1",
        "--network=host", "--restart=no", "--env-file=/dev/stdin", "--volume=/models:/models:ro",
        "--volume=/a b:/c", "--gpus=all", "--ipc=host", "lmsysorg/sglang:v0.5.23", *LAUNCH.argv,
    ]  # fmt: skip


def test_a_log_is_read_on_from_its_last_time_stamp_though_lines_share_one() -> None:
    shell = ScriptedShell()
    log = ContainerLog(shell, "docker", "c")
    first, second = "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.2Z"
    read = []

    for output in (
        f"{first} a\n{first} b\n",
        f"{first} a\n{first} b\n{first} c\n",
        f"{first} a\n{first} b\n{first} c\n{second} d\n",
        "",
        f"{second} d\n{second} e\n",
    ):
        shell.answers = {"sh -c": (0, output, "")}
        read.append(log.read())

    assert read == [b"a\nb\n", b"c\n", b"d\n", b"", b"e\n"]


def test_a_container_of_somebody_else_is_never_touched() -> None:
    shell = ScriptedShell({"docker inspect": (0, '{"other": "1"}\n', "")})

    with pytest.raises(HostError, match="that specbench did not start"):
        starter_for(HOST, shell).restore()

    assert not any("rm" in line.split() for line in shell.asked)


def test_a_container_left_by_specbench_is_removed() -> None:
    answers = {"docker inspect": (0, '{"specbench": "1"}\n', ""), "docker rm": (0, "", "")}
    shell = ScriptedShell(answers)

    assert starter_for(HOST, shell).restore() == ("removed the container specbench-30000",)
    assert "docker rm --force specbench-30000" in shell.asked


@pytest.mark.parametrize(
    "changes", [{"image": None}, {"container": {"cli": "rm -rf"}}, {"nodes": ("h2",)}]
)
def test_a_host_that_cannot_be_used_is_refused_at_once(changes: dict[str, object]) -> None:
    host = msgspec.structs.replace(HOST, **changes)

    with pytest.raises(InputError):
        cli_of(launcher_for(host, shell=ScriptedShell()).host)
