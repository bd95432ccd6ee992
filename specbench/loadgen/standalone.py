"""The load generator on its own: a load file in, rows into a file, events to standard output.

    python specbench-load.pyz LOAD --rows FILE [--share K/N] [--start-at UNIX_NS] [--key-file FILE]

LOAD is a LoadSpec as JSON. Events are JSON lines: drive_progress, and at the end drive_report or
refused. With --share K/N this is part K (from 0) of N that drive one load together from the
instant --start-at. --key-file holds the API key, so that no command line does.
"""

import argparse
import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from types import FrameType

import msgspec

from specbench.errors import InputError, SpecbenchError
from specbench.loadgen.drive import drive
from specbench.loadgen.messages import Refused
from specbench.loadgen.schedule import Share
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import LoadSpec


def main(argv: list[str] | None = None) -> None:
    """Drive one load. Exit status as everywhere: 2 input, 4 host, 130 interrupted."""
    options = _options(argv)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _interrupt)
    try:
        load = _load(options.load)
        if options.key_file and load.target.api_key_env:
            os.environ[load.target.api_key_env] = options.key_file.read_text().strip()
        events = drive(load, options.rows, share=options.share, start_unix_ns=options.start_at)
        with closing(events):
            for event in events:
                _say(msgspec.json.encode(event))
    except SpecbenchError as error:
        _say(msgspec.json.encode(Refused.by(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="specbench-load", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("load", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--share", type=_share, default=Share())
    parser.add_argument("--start-at", type=int)
    parser.add_argument("--key-file", type=Path)
    return parser.parse_args(argv)


def _share(text: str) -> Share:
    index, _, of = text.partition("/")
    share = Share(int(index), int(of))
    if not 0 <= share.index < share.of:
        raise ValueError
    return share


def _load(path: Path) -> LoadSpec:
    try:
        return msgspec.json.decode(path.read_bytes(), type=LoadSpec)
    except OSError as error:
        raise InputError(f"cannot read the load: {error.strerror}", where=str(path)) from None
    except NOT_JSON as error:
        raise InputError(f"not a load: {why_not(error)}", where=str(path)) from None


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
