"""The contract of every shell: what holds for this machine holds over SSH."""

import shlex
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import HostError
from specbench.remote.shell import CommandTimedOut, FileMissing, Shell, quote

pytestmark = pytest.mark.process

HOSTILE = ["a b", "it's", 'say "hi"', "$(id)", "`id`", "a;b", "new\nline", "*", "~", "", "ü→", "\\"]


def test_arguments_arrive_as_they_were_given(shell: Shell) -> None:
    done = shell.run(["printf", r"%s\0", *HOSTILE])

    assert done.ok
    assert done.stdout.split("\0")[:-1] == HOSTILE


def test_environment_arrives_as_it_was_given(shell: Shell) -> None:
    done = shell.run(["printenv", "SPECBENCH_X"], env={"SPECBENCH_X": "it's $(id)\n two"})

    assert done.stdout == "it's $(id)\n two\n"


@pytest.mark.parametrize("status", [0, 1, 2, 77, 255])
def test_an_exit_status_is_data(shell: Shell, status: int) -> None:
    done = shell.run(["sh", "-c", f"echo out; echo err >&2; exit {status}"])

    assert (done.status, done.stdout, done.stderr) == (status, "out\n", "err\n")
    assert done.ok == (status == 0)
    assert done.complaint == "err"


def test_a_signal_is_minus_its_number(shell: Shell) -> None:
    assert shell.run(["sh", "-c", "kill -KILL $$"]).status == -9


def test_input_reaches_the_command(shell: Shell) -> None:
    text = "line\n" * 50_000

    done = shell.run(["wc", "-c"], input=text)

    assert int(done.stdout) == len(text)


def test_output_that_is_no_utf8_is_shown_all_the_same(shell: Shell) -> None:
    assert shell.run(["printf", r"a\377b"]).stdout == "a�b"


def test_a_command_beyond_its_time_is_given_up(shell: Shell) -> None:
    started = time.monotonic()

    with pytest.raises(CommandTimedOut, match=r"no end within 0\.3 s: sleep 120"):
        shell.run(["sleep", "120"], timeout_s=0.3)

    assert time.monotonic() - started < 120  # not waited out; how soon, a busy machine decides


@pytest.mark.parametrize("argv", [[], ["a\0b"]])
def test_what_no_process_can_be_given_is_refused(shell: Shell, argv: list[str]) -> None:
    with pytest.raises(HostError):
        shell.run(argv)


def test_followed_lines_arrive_before_the_command_ends(shell: Shell) -> None:
    with shell.follow(
        ["sh", "-c", r"echo one; printf 'two\r\n'; echo three >&2; sleep 60"]
    ) as lines:
        seen = [lines.poll(5.0) for _ in range(3)]

        assert seen == ["one", "two", "three"]
        assert lines.poll(0.01) is None
        assert lines.status is None


def test_a_followed_command_that_ends_gives_its_last_line_and_status(shell: Shell) -> None:
    with shell.follow(["sh", "-c", "printf 'one\ntwo'; exit 3"]) as lines:
        assert list(lines) == ["one", "two"]
        assert lines.status == 3


def test_leaving_a_followed_command_ends_it(shell: Shell, folder: str) -> None:
    with shell.follow(["sh", "-c", f"echo $$ > {folder}/pid; echo up; exec sleep 60"]) as lines:
        assert lines.poll(5.0) == "up"
        pid = shell.read_file(f"{folder}/pid").decode().strip()

    deadline = time.monotonic() + 5
    while shell.run(["kill", "-0", pid]).ok and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not shell.run(["kill", "-0", pid]).ok


def test_a_written_file_is_read_back_from_any_offset(shell: Shell, folder: str) -> None:
    path = f"{folder}/new folder/it's.txt"
    content = bytes(range(256)) * 1000

    shell.write_file(path, content, mode=0o600)

    assert shell.read_file(path) == content
    assert shell.read_file(path, offset=250, limit=10) == content[250:260]
    assert shell.read_file(path, offset=len(content)) == b""
    assert shell.run(["stat", "-c", "%a", path]).stdout == "600\n"
    assert shell.exists(path)
    assert shell.run(["ls", "-A", f"{folder}/new folder"]).stdout.splitlines() == ["it's.txt"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(shell: Shell, folder: str) -> None:
    shell.write_file(f"{folder}/kept", b"old")

    with pytest.raises(HostError):
        shell.write_file(f"{folder}/kept/below", b"new")

    assert shell.read_file(f"{folder}/kept") == b"old"


def test_a_missing_file_is_said_to_be_missing(shell: Shell, folder: str) -> None:
    with pytest.raises(FileMissing, match="no such file"):
        shell.read_file(f"{folder}/nothing")
    shell.remove(f"{folder}/nothing")
    assert not shell.exists(f"{folder}/nothing")


def test_a_removed_file_is_gone(shell: Shell, folder: str) -> None:
    shell.write_file(f"{folder}/x", b"")

    shell.remove(f"{folder}/x")

    assert not shell.exists(f"{folder}/x")


def test_kernel_files_without_a_size_are_read_whole(shell: Shell) -> None:
    assert len(shell.read_file("/proc/sys/kernel/random/boot_id")) == 37


def test_a_forwarded_port_leads_to_the_one_on_the_host(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        echo = threading.Thread(target=_echo_once, args=(server,))
        echo.start()
        port = server.getsockname()[1]

        with shell.forward("127.0.0.1", port) as near:
            client = socket.create_connection(("127.0.0.1", near), 5)
            with client:
                client.sendall(b"hello")
                answer = client.recv(100)
        echo.join(5)

    assert answer == b"HELLO"


def _echo_once(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(connection.recv(100).upper())


@given(st.lists(st.text(st.characters(blacklist_characters="\0", codec="utf-8")), min_size=1))
def test_a_quoted_line_is_read_back_by_a_posix_shell(argv: list[str]) -> None:
    assert shlex.split(quote(argv)) == argv
