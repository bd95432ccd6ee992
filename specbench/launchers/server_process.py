"""What is known of the process behind a service, and done to it: the protocols of launchers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from specbench.launchers.logbook import LogSource


class Process(Protocol):
    """What a launcher knows of the process behind a service."""

    @property
    def log(self) -> LogSource:
        """Its output."""
        ...

    @property
    def pid(self) -> int | None:
        """The process id on its host."""
        ...

    @property
    def started_at(self) -> str | None:
        """When it started, UTC, ISO 8601."""
        ...

    def ended(self) -> int | None:
        """Return the exit status (minus the signal) once it ended, END_UNKNOWN where nobody saw it.

        None while it lives.
        """
        ...

    def work(self) -> float | None:
        """Return work done so far in any unit, or None where it cannot be seen."""
        ...

    def listens(self) -> bool | None:
        """Return whether it is the one that holds the port, None where that cannot be seen."""
        ...

    def sees(self, folders: Sequence[str]) -> bool | None:
        """Return whether folders are on its path and in its reach, None where that is hidden."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Return the variables that it has beside those of its launch; empty where unknown."""
        ...


class OwnProcess(Process, Protocol):
    """A process that specbench started, and therefore stops."""

    def stop(self, wait_s: float) -> None:
        """End it within a bound, by force if need be; a second call does nothing."""
        ...

    def let_go(self) -> None:
        """See that it goes on when specbench ends; a later `stop` does nothing."""
        ...
