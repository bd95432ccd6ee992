"""The launch command says what the specification says, and shows no secret."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import InputError
from specbench.hosts.command import address_of, hide_arguments, hide_environment, render
from specbench.model.host import Host
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec


def spec(*flags: tuple[str, Level], command: tuple[str, ...] = ()) -> LaunchSpec:
    return LaunchSpec(
        fingerprint="f", algorithm="ar", speculative=False, model_path="/m", served_name="n",
        command=command, flags=flags, env=(("B", "spec"),),
    )  # fmt: skip


def test_the_default_is_the_launcher_of_sglang_with_model_and_address() -> None:
    host = Host(name="h", address="x", python="/opt/python", url="http://127.0.0.1:31000")

    launch = render(host, spec(("tp-size", 8)))

    assert launch.argv == (
        "/opt/python", "-m", "sglang.launch_server", "--model-path", "/m", "--served-model-name",
        "n", "--host", "127.0.0.1", "--port", "31000", "--tp-size", "8",
    )  # fmt: skip


def test_values_become_words_switches_become_bare_flags() -> None:
    flags = (("a", True), ("b", False), ("c", None), ("d", 0.5), ("e", "x y"), ("f", -1))

    argv = render(Host(name="h"), spec(*flags, command=("serve",))).argv

    assert argv[argv.index("--a") :] == ("--a", "--d", "0.5", "--e", "x y", "--f=-1")


def test_a_command_of_the_matrix_outranks_that_of_the_host() -> None:
    host = Host(name="h", command=("{python}", "-m", "mine"), env={"A": "host", "B": "host"})

    assert render(host, spec()).argv[:3] == (sys.executable, "-m", "mine")
    assert render(host, spec(command=("theirs",))).argv[0] == "theirs"
    assert render(host, spec()).env == {"A": "host", "B": "spec"}


def test_a_flag_of_the_matrix_is_not_given_twice() -> None:
    argv = render(Host(name="h"), spec(("host", "0.0.0.0"))).argv

    assert argv.count("--host") == 1
    assert "0.0.0.0" in argv


@pytest.mark.parametrize("url", ["", "127.0.0.1:30000", "http://h", "ftp://h:1", "http://h:99999"])
def test_a_url_without_host_and_port_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="names no host and port"):
        address_of(Host(name="h", url=url))


def test_secrets_are_hidden_and_nothing_else() -> None:
    argv = ("--api-key", "s1", "--admin-api-key=s2", "--tokenizer-path", "/t", "--api-key")

    assert hide_arguments(argv) == [
        "--api-key", "***", "--admin-api-key=***", "--tokenizer-path", "/t", "--api-key",
    ]  # fmt: skip
    assert hide_environment({"HF_TOKEN": "s", "PATH": "/bin"}) == {
        "HF_TOKEN": "***",
        "PATH": "/bin",
    }


@given(st.text(min_size=1))
def test_a_value_of_any_text_is_one_word_that_argparse_takes_as_a_value(value: str) -> None:
    argv = render(Host(name="h"), spec(("x", value))).argv

    assert argv[-1] == value or argv[-1] == f"--x={value}"
    assert argv[-1] == value or value.startswith("-")
