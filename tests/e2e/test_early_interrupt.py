"""Ctrl-C while the command still loads."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

STOPPED = """\
import importlib.abc, os, signal, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
from specbench.cli.entry import main
main()
"""


def test_an_interrupt_while_the_command_loads_shows_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == -signal.SIGINT
    assert done.stderr == ""
