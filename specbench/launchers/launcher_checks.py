"""Everything that a launch on a host will need, looked at before one is tried."""

from collections.abc import Iterator

from specbench.hosts.checks import HostCheck, check_host
from specbench.launchers.launcher import LAUNCHERS
from specbench.model.host import Host
from specbench.remote.shell import Shell


def check_everything(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Look at all that a launch on this host will need, its launcher's needs among them."""
    way = LAUNCHERS.get(host.launcher)
    return check_host(host, shell, way.checks if way else ())
