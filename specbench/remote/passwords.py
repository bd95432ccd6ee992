"""Passwords: from the environment, or typed at a terminal; never from a file or a flag."""

import getpass
import os
import re
import sys
import threading
from typing import Literal

Kind = Literal["SSH_PASSWORD", "SSH_PASSPHRASE", "SUDO_PASSWORD"]

_PROMPTS: dict[Kind, str] = {
    "SSH_PASSWORD": "Password of {who}: ",
    "SSH_PASSPHRASE": "Passphrase of the SSH key for {who}: ",
    "SUDO_PASSWORD": "sudo password of {who}: ",
}
_asking = threading.Lock()
_typed: dict[tuple[Kind, str], str] = {}


def variables(kind: Kind, host: str) -> tuple[str, str]:
    """Name the environment variables that are looked at: that of the host, then that of all."""
    suffix = re.sub(r"\W", "_", host).upper()
    return f"SPECBENCH_{kind}_{suffix}", f"SPECBENCH_{kind}"


def find(kind: Kind, host: str, who: str) -> str | None:
    """Return the password, or None where neither the environment nor a person gives one.

    Hosts are opened in parallel: one question at a time, and none twice.
    """
    for name in variables(kind, host):
        if name in os.environ:
            return os.environ[name]
    with _asking:
        if (kind, who) in _typed:
            return _typed[kind, who]
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        _typed[kind, who] = getpass.getpass(_PROMPTS[kind].format(who=who), stream=sys.stderr)
        return _typed[kind, who]


def known(kind: Kind, host: str, who: str) -> bool:
    """Whether a password is at hand without asking anybody."""
    return any(name in os.environ for name in variables(kind, host)) or (kind, who) in _typed
