"""Start a service on a host, wait out its load, stop it, and leave everything as it was."""

from specbench.launchers.launcher import Launcher, launcher_for
from specbench.launchers.service import Service
from specbench.launchers.waiting import Patience

__all__ = ["Launcher", "Patience", "Service", "launcher_for"]
