"""From a command line to resolved arguments: parse, check, resolve, or end as SGLang does."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from specbench.engine.faults import list_faults
from specbench.engine.server import log
from specbench.engine.server.abilities import WITHOUT, read_without
from specbench.engine.server.constraints import resolve
from specbench.engine.server.faults import SERVER_FAULTS
from specbench.engine.server.flags import Parser, inert_flags, parser
from specbench.engine.server.loading import PHASES, check_phase, phase_seconds
from specbench.engine.server.sizing import clock_of

MAX_PORT = 65535
SECRETS = ("--api-key", "--admin-api-key")


def fault_lines() -> list[str]:
    """Every fault with its sentence: those of the computation, then those of the server."""
    faults = [(fault.name, fault.sentence) for fault in list_faults()]
    faults += list(SERVER_FAULTS.items())
    width = max(len(name) for name, _ in faults)
    return [f"{name:{width}}  {sentence}" for name, sentence in faults]


def read(argv: Sequence[str]) -> dict[str, Any]:
    """Parse and resolve.

    Ends the process with status 2 for what argparse refuses, with status 1 and SGLang's message
    for a combination that cannot run, with status 0 after a list that was asked for.
    """
    arguments = parser()
    given = vars(arguments.parse_args(list(argv)))
    _answer_lists(given)
    if given["model_path"] is None:
        arguments.error("the following arguments are required: --model-path")
    _check_own(arguments, given)
    try:
        args, warnings = resolve(given)
    except ValueError as error:
        sys.stderr.write(f"ValueError: {error}\n")
        sys.exit(1)
    log.configure(args)
    for warning in warnings:
        log.logger.warning(warning)
    if unused := inert_flags(given):
        log.logger.warning("[engine] accepted without effect: %s", ", ".join(unused))
    return args


def _answer_lists(given: dict[str, Any]) -> None:
    if "list" in given["fault"]:
        sys.stdout.write("\n".join(fault_lines()) + "\n")
        sys.exit(0)
    if given["without"] == "list":
        width = max(map(len, WITHOUT))
        lines = [f"{name:{width}}  {sentence}" for name, sentence in WITHOUT.items()]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.exit(0)
    if "list" in {given["fail_load"], given["hang_load"]}:
        sys.stdout.write("\n".join(PHASES) + "\n")
        sys.exit(0)


def _check_own(arguments: Parser, given: dict[str, Any]) -> None:
    """Refuse wrong values of the engine's own flags as argparse refuses others."""
    known = [fault.name for fault in list_faults()]
    try:
        for phase in (given["fail_load"], given["hang_load"]):
            check_phase(phase)
        phase_seconds(given)
        clock_of(given)
        read_without(given["without"])
    except ValueError as error:
        arguments.error(str(error))
    for name in given["fault"]:
        if name not in known and name not in SERVER_FAULTS:
            arguments.error(f"unknown fault {name!r}; --fault list names all")
    if not 0 <= given["port"] <= MAX_PORT:
        arguments.error(f"--port must be in [0, {MAX_PORT}]")
    if given["time_scale"] < 0 or given["load_seconds"] < 0 or given["noise_sd"] < 0:
        arguments.error("--time-scale, --load-seconds and --noise-sd must not be negative")


def launch_command(argv: Sequence[str]) -> str:
    """Return the command line for /server_info, secrets redacted."""
    shown, hide = [], False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hide:
            shown.append("<redacted>")
        elif name in SECRETS and equals:
            shown.append(f"{name}=<redacted>")
        else:
            shown.append(word)
        hide = word in SECRETS
    return shlex.join(shown)


def forced_shutdown() -> bool:
    """Whether SIGTERM must not drain (SGL_FORCE_SHUTDOWN)."""
    return os.environ.get("SGL_FORCE_SHUTDOWN", "").lower() in {"1", "true", "yes"}
