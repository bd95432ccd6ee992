"""Some of the hostile servers of benchmarks/hostile_servers.py, one of each kind of harm.

Times are not judged here: the script does, on a machine of its own.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hostile_servers.py"


SERVERS = {
    "get: endless body": ("load", "run"),
    "get: gzip bomb": ("load",),
    "get: deep JSON": ("verify",),
    "post: endless body": ("load", "verify"),
    "post: binary": ("run",),
    "post: bad chunk size": ("load",),
    "event: count huge": ("load", "run"),
    "event: terminal codes in an error": ("load", "verify"),
    "native: histogram negative": ("run",),
    "told: a name of terminal codes": ("load", "run", "verify"),
}


@pytest.mark.parametrize(
    ("server", "command"),
    [(server, command) for server, all_ in SERVERS.items() for command in all_],
)
def test_a_hostile_server_ends_a_command_in_words(server: str, command: str) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--only", server, "--command", command, "--jobs", "1"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failed" in done.stdout
