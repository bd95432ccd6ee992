"""Log lines in SGLang's format, on standard error, and uvicorn's beside them."""

import logging
import sys
from typing import Any

logger = logging.getLogger("specbench.engine")

DATE = "%Y-%m-%d %H:%M:%S"


def rank_prefix(args: dict[str, Any]) -> str:
    """Return the ` DP0 TP0 PP0 EP0` of a line's head: only sizes above one."""
    sizes = (("DP", "dp_size"), ("TP", "tp_size"), ("PP", "pp_size"), ("EP", "ep_size"))
    return "".join(f" {label}0" for label, size in sizes if args.get(size, 1) > 1)


def configure(args: dict[str, Any] | None = None) -> None:
    """Send every line of the engine to standard error, with the ranks of `args` in its head."""
    prefix = rank_prefix(args or {})
    level = str((args or {}).get("log_level", "info")).upper()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"[%(asctime)s{prefix}] %(message)s", DATE))
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.getLevelNamesMapping().get(level, logging.INFO))


class PathFilter(logging.Filter):
    """Keeps access lines of some paths out of the log."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        super().__init__()
        self.prefixes = prefixes

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written; uvicorn's arguments are client, method, path, ..."""
        arguments = record.args
        path = arguments[2] if isinstance(arguments, tuple) and len(arguments) > 2 else ""
        return not str(path).startswith(self.prefixes)


def uvicorn_config(args: dict[str, Any]) -> dict[str, Any]:
    """Configure uvicorn's logging: its own lines under the same time stamp."""
    level = str(args["log_level_http"] or args["log_level"]).upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {
                "()": "uvicorn.logging.DefaultFormatter",
                "fmt": "[%(asctime)s] %(levelprefix)s %(message)s",
                "datefmt": DATE,
                "use_colors": False,
            },
            "access": {
                "()": "uvicorn.logging.AccessFormatter",
                "fmt": '[%(asctime)s] %(levelprefix)s %(client_addr)s - "%(request_line)s" '
                "%(status_code)s",
                "datefmt": DATE,
                "use_colors": False,
            },
        },
        "filters": {
            "paths": {
                "()": PathFilter,
                "prefixes": tuple(args["uvicorn_access_log_exclude_prefixes"]),
            }
        },
        "handlers": {
            "plain": {
                "class": "logging.StreamHandler",
                "formatter": "plain",
                "stream": "ext://sys.stderr",
            },
            "access": {
                "class": "logging.StreamHandler",
                "formatter": "access",
                "filters": ["paths"],
                "stream": "ext://sys.stdout",
            },
        },
        "loggers": {
            "uvicorn.error": {"handlers": ["plain"], "level": level, "propagate": False},
            "uvicorn.access": {"handlers": ["access"], "level": level, "propagate": False},
        },
    }
