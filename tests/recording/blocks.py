"""Facts of a launch as a test needs them: what is not said is what nobody asked about."""

from typing import Any

import msgspec

from specbench.model.block_facts import BlockFacts

SPEC = {
    "fingerprint": "f", "algorithm": "ar", "speculative": False, "model_path": "/models/m",
    "served_name": "m",
}  # fmt: skip


def facts_of(**said: Any) -> BlockFacts:
    """Read facts as they stand in a file; a launch's definition is completed."""
    if "spec" in said:
        said["spec"] = SPEC | said["spec"]
    return msgspec.convert(said, BlockFacts)


def changed(facts: BlockFacts, **said: Any) -> BlockFacts:
    """Change facts; of a mapping only the names that are given."""
    known: dict[str, Any] = msgspec.to_builtins(facts)
    for name, value in said.items():
        known[name] = known[name] | value if isinstance(value, dict) else value
    return msgspec.convert(known, BlockFacts)
