"""A specbench of its own that is killed while its server runs."""

import subprocess
import sys
from pathlib import Path

import msgspec

from specbench.model.host import Host
from specbench.model.plan import LaunchSpec

CLIENT = """
import sys
from pathlib import Path
import msgspec
from specbench.launchers import launcher_for
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
host = msgspec.json.decode(sys.argv[1], type=Host)
spec = msgspec.json.decode(sys.argv[2], type=LaunchSpec)
with launcher_for(host).running(spec, Path(sys.argv[3])) as service:
    list(service.until_ready())
    print("ready", service.facts.pid, flush=True)
    sys.stdin.read()
"""


def kill_when_ready(host: Host, spec: LaunchSpec, folder: Path) -> int:
    """Let a client launch a server, kill it once that is ready, and return the server's pid."""
    arguments = [msgspec.json.encode(item).decode() for item in (host, spec)]
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, *arguments, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with client:
        assert client.stdout is not None
        line = client.stdout.readline()
        client.kill()
    assert line.startswith("ready")
    return int(line.split()[1])
