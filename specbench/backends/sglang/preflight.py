"""A program that builds SGLang's own parser, for flags to be tried before minutes of loading."""

from collections.abc import Sequence

import msgspec

from specbench.backends.backend import Preflight

MODULE = "sglang.launch_server"

# No GPU is touched and no model is read (0.4.6 to 0.5.23). What cannot be imported is left to the
# launch itself to say.
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


def preflight(argv: Sequence[str]) -> Preflight | None:
    """Try a command line of SGLang's launcher; another command has a parser of its own."""
    if tuple(argv[1:3]) != ("-m", MODULE):
        return None
    return Preflight(
        argv=(argv[0], "-c", _PROGRAM),
        input=msgspec.json.encode(argv[3:]),
        env={"SGLANG_USE_CPU_ENGINE": "1"},
    )
