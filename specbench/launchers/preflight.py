"""Flags tried with the host's own parser, before minutes of loading are spent on them."""

from specbench.backends.products import backend_for
from specbench.errors import HostError, LoadFailed
from specbench.hosts.command import Launch
from specbench.hosts.packages import VARIABLE
from specbench.remote.shell import Shell

PARSE_S = 180.0


class FlagCheck:
    """Remember which command lines a host's server has accepted: one check costs an import."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._accepted: set[tuple[tuple[str, ...], str | None]] = set()

    def require(self, launch: Launch) -> None:
        """Raise LoadFailed (pattern bad_flag) for flags that the installed version refuses.

        A command that is not the product's own launcher has a parser of its own and is not judged.
        """
        asked = launch.argv, launch.env.get(VARIABLE)
        backend = backend_for(launch.engine)
        trial = backend.preflight(launch.argv)
        if trial is None or asked in self._accepted:
            return
        path = {VARIABLE: launch.env[VARIABLE]} if VARIABLE in launch.env else {}
        try:
            done = self._shell.run(
                list(trial.argv), input=trial.input, timeout_s=PARSE_S, env={**trial.env, **path}
            )
        except HostError:
            return  # a slow import is no reason to refuse: the launch has its own patience
        if done.status == 2:
            raise LoadFailed(
                f"the host's {backend.title} refuses its command line: {done.complaint}",
                where=self._shell.name,
                hint="correct the flag in the matrix, or give the flags of this version under "
                "algorithms.<name>.versions; nothing was started",
                pattern="bad_flag",
                evidence=done.stderr.splitlines()[-3:],
            )
        if done.ok:
            self._accepted.add(asked)
