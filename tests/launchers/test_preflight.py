"""A flag that the installed server does not know is found before anything is loaded."""

import sys
from pathlib import Path

import msgspec
import pytest

from specbench.errors import LoadFailed
from specbench.hosts.command import Launch
from specbench.launchers.preflight import FlagCheck
from specbench.model.host import Address
from tests.launchers.scripted import ScriptedShell

pytestmark = pytest.mark.process

# A stand-in with SGLang's names: a parser is all that the check needs of it.
SERVER_ARGS = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        for flag in ("--model-path", "--pp-size", "--pp-max-micro-batch-size", "--port"):
            parser.add_argument(flag)
"""


@pytest.fixture
def sglang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "sglang" / "srt"
    package.mkdir(parents=True)
    (package / "server_args.py").write_text(SERVER_ARGS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))


def launch(*flags: str, module: str = "sglang.launch_server") -> Launch:
    argv = (sys.executable, "-m", module, *flags)
    return Launch(argv=argv, env={}, address=Address(host="127.0.0.1", port=1))


@pytest.mark.usefixtures("sglang")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--speculative-ddtree-budget", "16"), "unrecognized arguments"),
        (("--pp", "2"), "ambiguous option: --pp could match"),
    ],
)
def test_a_refused_flag_is_named(flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(LoadFailed, match=said) as failure:
        FlagCheck(ScriptedShell()).require(launch("--model-path", "/m", *flags))

    assert failure.value.pattern == "bad_flag"


@pytest.mark.usefixtures("sglang")
def test_an_accepted_command_line_is_not_tried_twice() -> None:
    shell = ScriptedShell()
    check = FlagCheck(shell)

    check.require(launch("--model-path", "/m"))
    check.require(launch("--model-path", "/m"))

    assert len(shell.asked) == 1


def test_a_server_that_cannot_be_imported_is_left_to_its_launch() -> None:
    FlagCheck(ScriptedShell()).require(launch("--no-such-flag"))


def test_another_server_is_not_judged() -> None:
    shell = ScriptedShell()

    FlagCheck(shell).require(launch("--anything", module="specbench.engine"))

    assert shell.asked == []


def test_flags_travel_by_standard_input_and_not_in_the_process_list() -> None:
    shell = ScriptedShell({sys.executable: (0, "", "")})
    given = launch("--model-path", "it's $(id)\n")

    FlagCheck(shell).require(given)

    assert msgspec.json.encode(given.argv[3:]).decode() not in shell.asked[0]
