"""Facts of the machine that drives the load: they belong to every measurement."""

import os
import platform
from typing import Any


def client_facts() -> dict[str, Any]:
    """Give the client's system, processor count and Python; the confound guard compares them."""
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }
