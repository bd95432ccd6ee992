"""Where the command begins: Ctrl-C while Python still loads it is an end without a traceback."""

import signal


def main() -> None:
    """Load the command line and run it."""
    by_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if by_python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is begun that must be put back
    from specbench.cli.main import main as run

    if by_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
