"""SSH as users have set it up: agents, public identities, certificates, odd known_hosts files."""

import getpass
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specbench.errors import HostError
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


@pytest.fixture
def agent(server: Sshd) -> Iterator[Path]:
    """An agent at a socket of its own that alone holds the private key."""
    path = server.folder / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if path.exists():
                break
            time.sleep(0.05)
        add = ["ssh-add", "-q", str(server.folder / "user_key")]
        subprocess.run(add, check=True, env={**os.environ, "SSH_AUTH_SOCK": str(path)})
        (server.folder / "user_key").rename(server.folder / "moved_key")
        yield path
    finally:
        process.kill()
        process.wait()


def configure(server: Sshd, *lines: str) -> None:
    """Describe the host `other`: the one of `near`, with other ways to log in."""
    usual = (f"HostName 127.0.0.1\nPort {server.port}\nUserKnownHostsFile "
             f"{server.folder}/known_hosts\nGlobalKnownHostsFile /dev/null\n")  # fmt: skip
    with server.config.open("a") as config:
        config.write("Host other\n" + usual + "\n".join(lines) + "\n")


def test_an_identity_agent_is_asked_as_ssh_asks_it(
    server: Sshd, connect: Connect, agent: Path
) -> None:
    configure(server, f"IdentityAgent {agent}", "IdentityFile none")

    assert connect("other").run(["echo", "in"]).stdout == "in\n"


def test_a_public_identity_file_picks_the_key_of_an_agent(
    server: Sshd, connect: Connect, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    configure(server, f"IdentityFile {server.folder}/user_key.pub", "IdentitiesOnly yes")

    assert connect("other").run(["echo", "in"]).stdout == "in\n"


def test_a_public_identity_file_that_no_agent_holds_is_named(
    server: Sshd, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    configure(server, f"IdentityFile {server.folder}/user_key.pub", "IdentitiesOnly yes")

    with pytest.raises(HostError, match=r"no agent holds the private key of .*/user_key\.pub"):
        connect("other").run(["true"])


def test_an_identity_agent_that_does_not_answer_is_named(server: Sshd, connect: Connect) -> None:
    configure(server, "IdentityAgent /nowhere/agent", "IdentityFile none")

    with pytest.raises(HostError, match=r"the agent at /nowhere/agent does not answer: No such"):
        connect("other").run(["true"])


@pytest.mark.parametrize("fits", [True, False])
def test_a_certificate_of_another_name_is_offered_with_its_key_or_named(
    server: Sshd, connect: Connect, fits: bool
) -> None:
    folder = server.folder
    subject = folder / ("user_key.pub" if fits else "host_key.pub")
    sign = ["-s", f"{folder}/ca", "-I", "me", "-n", getpass.getuser(), str(subject)]
    for words in (["-t", "ed25519", "-N", "", "-f", f"{folder}/ca"], sign):
        subprocess.run(["ssh-keygen", "-q", *words], check=True)
    subject.with_name(f"{subject.stem}-cert.pub").rename(folder / "another-name.pub")
    server.stop()
    with (folder / "sshd_config").open("a") as config:
        config.write(f"TrustedUserCAKeys {folder}/ca.pub\n")
    (folder / "user_key.pub").write_text("")  # the key alone opens nothing
    server.start()
    configure(server, f"IdentityFile {folder}/user_key", "IdentitiesOnly yes",
              f"CertificateFile {folder}/another-name.pub")  # fmt: skip

    if fits:
        assert connect("other").run(["echo", "in"]).stdout == "in\n"
        return
    with pytest.raises(HostError, match=r"no key is there that CertificateFile .*another-name"):
        connect("other").run(["true"])


def test_lines_of_known_hosts_that_paramiko_cannot_read_stop_no_host(
    server: Sshd, connect: Connect
) -> None:
    known = server.folder / "known_hosts"
    others = b"@cert-authority *.corp.example ssh-ed25519 AAAA\nh ssh-rsa AAAAno!!\n\xff\xfe x y\n"
    known.write_bytes(others + known.read_bytes())

    assert connect().run(["echo", "in"]).stdout == "in\n"


def test_a_revoked_host_key_is_refused_even_where_it_was_accepted(
    server: Sshd, connect: Connect
) -> None:
    known = server.folder / "known_hosts"
    known.write_text(known.read_text() + "\n@revoked " + known.read_text())

    with pytest.raises(HostError, match=r"is marked @revoked: SHA256:"):
        connect().run(["true"])


def test_a_certificate_authority_for_the_host_is_named_where_its_own_key_is_not_known(
    server: Sshd, connect: Connect
) -> None:
    known = server.folder / "known_hosts"
    known.write_text("@cert-authority " + known.read_text())

    with pytest.raises(HostError, match=r"is not known: .*known_hosts:1 trusts a certificate auth"):
        connect().run(["true"])


WRAPPER = """\
#!/bin/sh
case "$SSH_ORIGINAL_COMMAND" in *{apart}*) exec $SSH_ORIGINAL_COMMAND;; esac
{before}
sh -c "$SSH_ORIGINAL_COMMAND"
status=$?
{after}
exit $status
"""
SFTP_SERVERS = tuple(f"/usr/{folder}/sftp-server" for folder in ("lib/openssh", "libexec/openssh",
                                                                 "lib/ssh"))  # fmt: skip


def wrap_commands(
    server: Sshd, *, before: str, after: str = ":", apart: str = "sftp-server"
) -> None:
    """Let the login do something around every command, but for those with a word in them."""
    script = server.folder / "wrapper.sh"
    script.write_text(WRAPPER.format(before=before, after=after, apart=apart))
    script.chmod(0o755)
    sftp = next(path for path in SFTP_SERVERS if Path(path).exists())
    config = server.folder / "sshd_config"
    text = config.read_text().replace("sftp internal-sftp", f"sftp {sftp}")
    server.stop()
    config.write_text(f"{text}ForceCommand {script}\n")
    server.start()


def test_what_login_scripts_print_is_no_part_of_an_answer(server: Sshd, connect: Connect) -> None:
    noise = "echo '*** Welcome ***'; echo 'module: loading cuda' >&2"
    wrap_commands(server, before=noise, after="echo bye; echo bye >&2")
    shell = connect()

    done = shell.run(["sh", "-c", "printf answer; printf complaint >&2; exit 3"])
    with shell.follow(["sh", "-c", "echo one; echo two"]) as lines:
        followed = [line for line in lines if line != "bye"]

    assert (done.stdout, done.stderr, done.status) == ("answer", "complaint", 3)
    assert followed == ["one", "two"]


def test_the_files_of_a_login_that_changes_its_folder_are_those_of_its_commands(
    server: Sshd, connect: Connect, tmp_path: Path
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    wrap_commands(server, before=f"export HOME={home}; cd {elsewhere}")
    shell = connect()

    shell.write_file("~/deep/file", b"here")

    assert shell.run(["sh", "-c", 'cat "$HOME/deep/file"']).stdout == "here"
    assert shell.read_file("~/deep/file") == b"here"
    assert list(elsewhere.iterdir()) == []


def test_login_scripts_that_print_into_sftp_are_named(server: Sshd, connect: Connect) -> None:
    wrap_commands(server, before="echo '*** Welcome ***'", apart="no-such-word")

    with pytest.raises(HostError, match="does not answer as SFTP does") as failure:
        connect().read_file("/etc/hostname")

    assert failure.value.hint is not None
    assert "login scripts" in failure.value.hint


def test_an_sshd_without_sftp_is_named_and_no_connection_said_to_be_lost(
    server: Sshd, connect: Connect
) -> None:
    config = server.folder / "sshd_config"
    server.stop()
    config.write_text(config.read_text().replace("Subsystem sftp internal-sftp\n", ""))
    server.start()
    shell = connect()

    with pytest.raises(HostError, match="offers no SFTP") as failure:
        shell.read_file("/etc/hostname")

    assert failure.value.hint is not None
    assert "Subsystem sftp" in failure.value.hint
    assert shell.run(["true"]).ok
