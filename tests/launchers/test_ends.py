"""How a server ended is told only as far as its machine tells it."""

import json

import pytest

from specbench.launchers.docker import ContainerProcess
from specbench.launchers.process import ServerProcess
from specbench.launchers.systemd.launcher import UnitProcess
from specbench.launchers.systemd.not_started import not_started
from specbench.launchers.systemd.systemctl import Unit, UnitState
from specbench.model.host import Address, Host
from specbench.model.service import END_UNKNOWN
from tests.launchers.scripted import ScriptedShell

HOST = Host(name="h", url="http://127.0.0.1:30000")
RUNNING = "ActiveState=active\nInvocationID=a\nMainPID=7\nExecMainCode=0\nExecMainStatus=0\n"


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (RUNNING, None),
        ("ActiveState=inactive\nInvocationID=a\nMainPID=0\nExecMainCode=1\nExecMainStatus=0\n", 0),
        ("ActiveState=failed\nInvocationID=a\nMainPID=0\nExecMainCode=1\nExecMainStatus=3\n", 3),
        ("ActiveState=failed\nInvocationID=a\nMainPID=0\nExecMainCode=2\nExecMainStatus=9\n", -9),
        # A unit that ended well is forgotten: nothing of its end is left.
        ("ActiveState=inactive\nInvocationID=\nMainPID=0\nExecMainCode=0\n", END_UNKNOWN),
        (RUNNING.replace("=a\n", "=b\n"), END_UNKNOWN),
    ],
)
def test_the_end_of_a_unit_is_what_systemd_says_and_else_unknown(
    shown: str, status: int | None
) -> None:
    shell = ScriptedShell({"systemctl show": (0, RUNNING, "")})
    unit = Unit(shell, "b.service", user=False)
    process = UnitProcess(shell, HOST, unit, unit.state(), None)

    shell.answers["systemctl show"] = (0, shown, "")

    assert process.ended() == status


@pytest.mark.parametrize(
    ("now", "status"),
    [
        ({"Running": True, "StartedAt": "1"}, None),
        ({"Running": False, "StartedAt": "1", "ExitCode": 0}, 0),
        ({"Running": False, "StartedAt": "1", "ExitCode": 137}, -9),
        ({"Running": True, "StartedAt": "2", "ExitCode": 0}, END_UNKNOWN),
        ({}, END_UNKNOWN),
    ],
)
def test_the_end_of_a_container_is_what_the_engine_says_and_else_unknown(
    now: dict[str, object], status: int | None
) -> None:
    first = json.dumps({"Running": True, "StartedAt": "1"})
    shell = ScriptedShell({"docker inspect": (0, first, "")})
    process = ContainerProcess(shell, HOST, "c")

    shell.answers["docker inspect"] = (0, json.dumps(now), "")

    assert process.ended() == status


def test_a_server_whose_state_is_not_there_was_not_killed_by_anybody(own_home: object) -> None:
    state = {"pid": 7, "started_at": "now", "log": "/no/log"}
    address = Address(host="127.0.0.1", port=30000)

    assert ServerProcess(ScriptedShell(), HOST, address, state).ended() == END_UNKNOWN


@pytest.mark.parametrize(
    ("code", "status", "lines", "said", "hinted"),
    [
        ("1", "203", ["Failed at step EXEC"], "could not start b.service", "absolute path"),
        ("1", "200", ["Failed at step CHDIR"], "could not start b.service", "workdir"),
        ("1", "1", ["/py: No module named sglang"], "no package 'sglang'", "python in hosts.yaml"),
        ("1", "3", ["bye"], "exit status 3", "server.log"),
        ("0", "0", [], "could not start b.service", "systemctl status b.service"),
    ],
)
def test_a_unit_that_ends_at_once_is_told_by_what_it_said_and_not_by_a_guess(
    code: str, status: str, lines: list[str], said: str, hinted: str
) -> None:
    state = UnitState(raw={"ActiveState": "failed", "ExecMainCode": code, "ExecMainStatus": status})

    error = not_started("b.service", state, lines, engine="sglang", where="h")

    assert said in error.what
    assert error.hint is not None
    assert hinted in error.hint
    assert ("absolute path" in error.hint) == (status == "203")
