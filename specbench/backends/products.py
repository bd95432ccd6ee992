"""The one list of server products."""

from collections.abc import Mapping
from typing import Any

from specbench.backends.backend import Backend
from specbench.backends.llamacpp.backend import LlamaCpp
from specbench.backends.openai.backend import OpenAi
from specbench.backends.sglang.backend import Sglang
from specbench.backends.vllm.backend import Vllm
from specbench.errors import InputError, nearest
from specbench.model.facts import Finding

DEFAULT = "sglang"
"""What a matrix means that names no engine."""

ANYTHING = "openai"
"""What recognises any server."""

_PRODUCTS: tuple[Backend, ...] = (
    Sglang(),
    Vllm(),
    LlamaCpp(),
    OpenAi(),
)
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in _PRODUCTS}
"""By name; in the order in which a server is tried, the one that recognises anything last."""


def backend_for(engine: str) -> Backend:
    """Return the backend of an engine; "" is the default one. Raises InputError for another."""
    found = BACKENDS.get(engine or DEFAULT)
    if found is None:
        raise InputError(
            f"unknown engine {engine!r:.60}", hint=nearest(engine, BACKENDS, noun="engines")
        )
    return found


def contamination_of(environment: Mapping[str, Any]) -> tuple[Finding, ...]:
    """List the variables of an environment that falsify a measurement of any product."""
    return tuple(f for backend in BACKENDS.values() for f in backend.contamination(environment))
