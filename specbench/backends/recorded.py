"""Typed facts of a launch out of what a recording holds, older ones included."""

from collections.abc import Mapping
from typing import Any

from specbench.backends.backend import Backend, Notice
from specbench.backends.products import backend_for
from specbench.model.block_facts import BlockFacts
from specbench.model.facts import ServerFacts

IN_A_LINE = ("version", "model_path", "model", "speculative_algorithm", "device", "dtype")
"""What of a verdict's server one line shows; each product has some of these names."""


def recorded_facts(block: BlockFacts) -> ServerFacts:
    """Return what the server of a block said, by its own answers where they were recorded.

    So what is read of an answer today is known of every recording.
    """
    if block.server != ServerFacts() and not block.server_info:
        return block.server
    return _backend_of(block).facts(block.server_info, block.model_info)


def _backend_of(block: BlockFacts) -> Backend:
    return backend_for(block.server.product or (block.spec.engine if block.spec else ""))


def recorded_notices(block: BlockFacts) -> frozenset[str]:
    """Name the notices that the server's own log gave before the first trial."""
    reader = _backend_of(block).log_reader()
    read = [reader.read(line) for line in block.notices]
    return frozenset(notice.name for notice in read if isinstance(notice, Notice))


def shown_facts(server: Mapping[str, Any]) -> ServerFacts:
    """Return what a verdict shows of its server, which is a part of the server's own answers."""
    return backend_for("").facts(server, {})


def shown_in_a_line(server: Mapping[str, Any]) -> list[str]:
    """Say in short words which server a verdict is about, by the names that the server gives."""
    return [f"{name} {server[name]}" for name in IN_A_LINE if server.get(name)]


def shown_algorithm(server: Mapping[str, Any]) -> str:
    """Name the algorithm of a verdict's server as it spells it; empty where it does not say."""
    return str(server.get("speculative_algorithm") or server.get("algorithm") or "")
