"""Flags tried with the host's own parser, before minutes of loading are spent on them."""

import msgspec

from specbench.errors import HostError, LoadFailed
from specbench.hosts.command import Launch
from specbench.hosts.packages import VARIABLE
from specbench.remote.shell import Shell

PARSE_S = 180.0
MODULE = "sglang.launch_server"

# Builds the parser of SGLang and parses the flags: no GPU is touched and no model is read
# (0.4.6 to 0.5.23). What cannot be imported is left to the launch itself to say.
_PROGRAM = """
import argparse, json, sys
try:
    from sglang.srt.server_args import ServerArgs
except ImportError as error:
    print(error)
    sys.exit(77)
parser = argparse.ArgumentParser(prog="sglang.launch_server")
ServerArgs.add_cli_args(parser)
parser.parse_args(json.load(sys.stdin))
"""


class FlagCheck:
    """Remember which command lines a host's SGLang has accepted: one check costs an import."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._accepted: set[tuple[tuple[str, ...], str | None]] = set()

    def require(self, launch: Launch) -> None:
        """Raise LoadFailed (pattern bad_flag) for flags that this version of SGLang refuses.

        A command that is not SGLang's launcher has a parser of its own and is not judged.
        """
        asked = launch.argv, launch.env.get(VARIABLE)
        if launch.argv[1:3] != ("-m", MODULE) or asked in self._accepted:
            return
        path = {VARIABLE: launch.env[VARIABLE]} if VARIABLE in launch.env else {}
        flags = msgspec.json.encode(launch.argv[3:])
        try:
            done = self._shell.run(
                [launch.argv[0], "-c", _PROGRAM],
                input=flags,
                timeout_s=PARSE_S,
                env={"SGLANG_USE_CPU_ENGINE": "1", **path},
            )
        except HostError:
            return  # a slow import is no reason to refuse: the launch has its own patience
        if done.status == 2:
            raise LoadFailed(
                f"the host's SGLang refuses its command line: {done.complaint}",
                where=self._shell.name,
                hint="correct the flag in the matrix, or give the flags of this version under "
                "algorithms.<name>.versions; nothing was started",
                pattern="bad_flag",
                evidence=done.stderr.splitlines()[-3:],
            )
        if done.ok:
            self._accepted.add(asked)
