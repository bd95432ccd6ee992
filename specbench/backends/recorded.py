"""Typed facts of a launch out of what a recording holds, older ones included."""

from collections.abc import Mapping
from typing import Any

import msgspec

from specbench.backends.products import backend_for
from specbench.model.facts import ServerFacts


def recorded_facts(block: Mapping[str, Any]) -> ServerFacts:
    """Return what the server of a block said; of recordings before typed facts, read again."""
    said = block.get("server")
    if isinstance(said, Mapping) and said.get("product"):
        return msgspec.convert(said, ServerFacts)
    spec = block.get("spec") or {}
    backend = backend_for(str(spec.get("engine") or ""))
    return backend.facts(block.get("server_info") or {}, block.get("model_info") or {})
