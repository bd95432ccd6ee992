"""Commands with the rights of root: directly, by sudo, or by sudo with a password."""

from collections.abc import Sequence

from specbench.errors import HostError
from specbench.remote import passwords
from specbench.remote.shell import Completed, Shell

_PROMPT = "specbench-sudo:"


class Root:
    """Run commands as root on one host.

    The password, where sudo wants one, goes through standard input and is asked for only then.
    Raises HostError where root's rights cannot be had, with the way to get them.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._prefix: tuple[str, ...] | None = None
        self._password: str | None = None

    def run(
        self, argv: Sequence[str], *, content: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run a command as root; `content` is its standard input."""
        prefix = self._find_prefix()
        secret = b"" if self._password is None else self._password.encode() + b"\n"
        done = self._shell.run([*prefix, *argv], input=secret + content, timeout_s=timeout_s)
        if self._password is not None and not done.ok and _refused(done.stderr):
            names = " or ".join(passwords.variables("SUDO_PASSWORD", self._shell.name))
            raise HostError(
                "sudo refused the password", where=self._shell.name, hint=f"correct {names}"
            )
        return done

    def _find_prefix(self) -> tuple[str, ...]:
        if self._prefix is None:
            self._prefix = self._decide()
        return self._prefix

    def _decide(self) -> tuple[str, ...]:
        if self._shell.run(["id", "-u"]).stdout.strip() == "0":
            return ()
        quiet = self._shell.run(["sudo", "-n", "true"])
        if quiet.ok:
            return ("sudo", "-n", "--")
        who = f"{self._shell.run(['id', '-un']).stdout.strip()}@{self._shell.name}"
        if quiet.status == 127:  # the shell found no sudo
            raise HostError(f"{who} is not root, and there is no sudo", where=self._shell.name)
        self._password = passwords.find("SUDO_PASSWORD", self._shell.name, who)
        if self._password is None:
            names = " or ".join(passwords.variables("SUDO_PASSWORD", self._shell.name))
            raise HostError(
                f"sudo wants a password of {who}: {quiet.complaint}",
                where=self._shell.name,
                hint=f"set {names}, or allow sudo without a password, or use a --user unit",
            )
        return ("sudo", "-S", "-p", _PROMPT, "--")


def _refused(stderr: str) -> bool:
    return "incorrect password" in stderr or "try again" in stderr or "no password" in stderr
