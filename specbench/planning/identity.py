"""Content hashes: what a cell, a trial and a block are called, independent of key order."""

from hashlib import blake2b
from typing import Any

import msgspec

from specbench.model.matrix import WorkloadOptions

FIRST_OPTIONS = frozenset(
    {
        "api", "dataset", "ignore_eos", "max_tokens", "min_p", "request_timeout_s", "requests",
        "seed", "stagger", "temperature", "top_k", "top_p", "warmup", "window",
    }
)  # fmt: skip
"""The options of a workload when cells were first named: never one more."""

_encoder = msgspec.json.Encoder(order="sorted")


def digest(*parts: Any) -> str:
    """Return 16 hexadecimal digits of a hash of JSON values; the order of keys has no part in it.

    64 bits: among a million ids two are equal with a chance of 3e-8.
    """
    return blake2b(_encoder.encode(parts), digest_size=8).hexdigest()


def joined(*parts: str) -> str:
    """Return a digest of digests and names: as `digest`, for texts without line breaks."""
    return blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def seed_of(*parts: Any) -> int:
    """Return a seed below 2**53, which JSON and NumPy take without loss."""
    return int.from_bytes(blake2b(_encoder.encode(parts), digest_size=8).digest()) >> 11


def named_by(options: WorkloadOptions) -> dict[str, Any]:
    """Return the options that name a cell: the first ones, and those others that were changed.

    So an option that the program gets later leaves recorded trials as they are, at its default.
    """
    values = {name: getattr(options, name) for name in options.__struct_fields__}
    default = type(options)()
    return {
        name: value
        for name, value in values.items()
        if name in FIRST_OPTIONS or value != getattr(default, name)
    }
