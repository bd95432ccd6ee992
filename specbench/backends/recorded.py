"""Typed facts of a launch out of what a recording holds, older ones included."""

from collections.abc import Mapping
from typing import Any

import msgspec

from specbench.backends.backend import Backend, Notice
from specbench.backends.products import backend_for
from specbench.model.facts import ServerFacts


def recorded_facts(block: Mapping[str, Any]) -> ServerFacts:
    """Return what the server of a block said, by its own answers where they were recorded.

    So what is read of an answer today is known of every recording.
    """
    said, answers = block.get("server"), block.get("server_info")
    if isinstance(said, Mapping) and not answers:
        return msgspec.convert(said, ServerFacts)
    return _backend_of(block).facts(answers or {}, block.get("model_info") or {})


def _backend_of(block: Mapping[str, Any]) -> Backend:
    product = (block.get("server") or {}).get("product")
    return backend_for(str(product or (block.get("spec") or {}).get("engine") or ""))


def recorded_notices(block: Mapping[str, Any]) -> frozenset[str]:
    """Name the notices that the server's own log gave before the first trial."""
    reader = _backend_of(block).log_reader()
    read = [reader.read(str(line)) for line in block.get("notices") or ()]
    return frozenset(notice.name for notice in read if isinstance(notice, Notice))


def shown_facts(server: Mapping[str, Any]) -> ServerFacts:
    """Return what a verdict shows of its server, which is a part of the server's own answers."""
    return backend_for("").facts(server, {})


def shown_algorithm(server: Mapping[str, Any]) -> str:
    """Name the algorithm of a verdict's server as it spells it; empty where it does not say."""
    return str(server.get("speculative_algorithm") or server.get("algorithm") or "")
