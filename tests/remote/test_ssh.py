"""What only SSH has: keys that are checked, connections that are lost, hosts that do not answer."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specbench.errors import HostError
from specbench.remote import passwords
from specbench.remote.endpoint import CONFIG_VARIABLE, resolve
from specbench.remote.ssh import SshShell
from tests.remote.sshd import Sshd, sshd

pytestmark = pytest.mark.process


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with sshd(tmp_path) as server:
        monkeypatch.setenv(CONFIG_VARIABLE, str(server.config))
        yield server


@pytest.fixture
def connect(server: Sshd) -> Iterator[Callable[[str], SshShell]]:
    opened: list[SshShell] = []

    def open_one(alias: str = "near") -> SshShell:
        opened.append(SshShell(resolve(alias), name="b300"))
        return opened[-1]

    yield open_one
    for shell in opened:
        shell.close()


Connect = Callable[..., SshShell]


def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_the_way_to_accept_it(
    server: Sshd, connect: Connect
) -> None:
    (server.folder / "known_hosts").write_text("")

    with pytest.raises(HostError, match=r"is not known: ssh-ed25519 SHA256:") as error:
        connect().run(["true"])

    assert "ssh near" in str(error.value)
    assert (server.folder / "known_hosts").read_text() == ""


def test_a_changed_host_key_is_refused_with_both_fingerprints(
    server: Sshd, connect: Connect
) -> None:
    server.stop()
    server.rekey()
    server.start()

    with pytest.raises(HostError, match=r"has changed: known SHA256:\S+, offered SHA256:") as error:
        connect().run(["true"])

    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in str(error.value)


def test_a_refused_login_says_what_was_tried_and_names_the_variables(
    server: Sshd, connect: Connect
) -> None:
    (server.folder / "user_key.pub").write_text("")

    with pytest.raises(HostError, match="refused every key and password") as error:
        connect().run(["true"])

    assert "SPECBENCH_SSH_PASSWORD_B300 or SPECBENCH_SSH_PASSWORD" in str(error.value)


def test_a_jump_host_leads_on(connect: Connect, tmp_path: Path) -> None:
    shell = connect("jumped")

    shell.write_file(f"{tmp_path}/x", b"far")

    assert shell.run(["cat", f"{tmp_path}/x"]).stdout == "far"


def test_a_lost_connection_is_opened_again(server: Sshd, connect: Connect, tmp_path: Path) -> None:
    shell = connect()
    shell.write_file(f"{tmp_path}/x", b"kept")

    server.stop()
    server.start()

    assert shell.run(["echo", "back"]).stdout == "back\n"
    server.stop()
    server.start()
    assert shell.read_file(f"{tmp_path}/x") == b"kept"


def test_a_tunnel_outlives_its_connection(server: Sshd, connect: Connect) -> None:
    shell = connect()
    with (
        socket.create_server(("127.0.0.1", 0)) as target,
        shell.forward("127.0.0.1", target.getsockname()[1]) as port,
    ):
        answers = [_greet(port, target)]
        server.stop()
        server.start()
        answers.append(_greet(port, target))

    assert answers == [b"hi", b"hi"]


def test_a_tunnel_to_nobody_closes_at_once(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        dead = gone.getsockname()[1]

    with (
        connect().forward("127.0.0.1", dead) as port,
        socket.create_connection(("127.0.0.1", port), 5) as client,
    ):
        assert client.recv(10) == b""


def test_a_session_that_dies_in_mid_command_is_an_error_not_a_status(
    server: Sshd, connect: Connect, tmp_path: Path
) -> None:
    shell = connect()
    shell.connect()
    killer = f"kill -9 $(ps -o ppid= -p $PPID); touch {tmp_path}/killed; sleep 1"

    with pytest.raises(HostError, match="was lost"):
        shell.run(["sh", "-c", killer])


def test_a_port_without_sshd_is_said_and_not_waited_for(server: Sshd, connect: Connect) -> None:
    server.stop()

    with pytest.raises(HostError, match=r"cannot reach .*: Connection refused"):
        connect().run(["true"])


def test_a_host_that_accepts_and_says_nothing_is_given_up(
    server: Sshd, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specbench.remote.connection.BANNER_S", 0.3)
    monkeypatch.setattr("specbench.remote.connection.CONNECT_S", 0.5)
    server.stop()

    with (
        socket.create_server(("127.0.0.1", server.port)),
        pytest.raises(HostError, match="cannot reach"),
    ):
        connect().run(["true"])


def test_a_name_that_does_not_resolve_is_said() -> None:
    with pytest.raises(HostError, match="does not resolve"):
        SshShell(resolve("no-such-host.invalid")).run(["true"])


@pytest.mark.parametrize("address", ["-oProxyCommand=touch /tmp/owned", "-F"])
def test_an_address_is_never_taken_for_an_option(address: str) -> None:
    with pytest.raises(HostError, match="no host name"):
        resolve(address)


def test_a_broken_ssh_configuration_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("Host x\n  NoSuchOption yes\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))

    with pytest.raises(HostError, match="cannot make sense of 'x'"):
        resolve("x")


def test_jump_hosts_are_chained_in_the_order_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(
        "Host far\n  HostName 192.0.2.9\n  Port 2200\n  User u\n  ProxyJump a,me@[192.0.2.2]:77\n"
        "Host a\n  HostName 192.0.2.1\n"
    )
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))

    far = resolve("far", port=2222)

    assert str(far) == "u@192.0.2.9:2222"
    assert far.key_name == "[192.0.2.9]:2222"
    assert far.jump is not None
    assert str(far.jump) == "me@192.0.2.2:77"
    assert far.jump.jump is not None
    assert far.jump.jump.hostname == "192.0.2.1"


def test_a_password_comes_from_the_variable_of_the_host_before_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECBENCH_SUDO_PASSWORD", "all")
    monkeypatch.setenv("SPECBENCH_SUDO_PASSWORD_GPU_1", "one")

    assert passwords.find("SUDO_PASSWORD", "gpu-1", "u") == "one"
    assert passwords.find("SUDO_PASSWORD", "gpu-2", "u") == "all"


def test_without_terminal_and_variable_there_is_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPECBENCH_SSH_PASSWORD", raising=False)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)

        assert passwords.find("SSH_PASSWORD", "h", "u@h:22") is None


def _greet(port: int, target: socket.socket) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        target.settimeout(10)
        served, _ = target.accept()
        with served:
            client.sendall(b"hi")
            return served.recv(10)
