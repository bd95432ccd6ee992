"""`python -m specbench.engine`: the reference engine under SGLang's launch flags."""

import sys

from specbench.engine.server.startup import start


def main() -> None:
    """Serve until stopped; Ctrl-C during the load ends with status 130."""
    try:
        start(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
