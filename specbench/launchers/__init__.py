"""Start a service on a host, wait out its load, stop it, and leave everything as it was."""

from specbench.launchers.launcher import Launcher, launcher_for
from specbench.launchers.service import Patience, RunningService

__all__ = ["Launcher", "Patience", "RunningService", "launcher_for"]
