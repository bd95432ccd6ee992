"""Hosts, ports and shells, as the tests of launchers and shells have them."""

from tests.launchers.conftest import local, own_home, port, spec_of
from tests.remote.conftest import folder, shared_sshd, shell

__all__ = ["folder", "local", "own_home", "port", "shared_sshd", "shell", "spec_of"]
