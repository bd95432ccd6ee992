"""The arrays of a trained language model, and the cache file they are kept in."""

import os
import tempfile
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Number = TypeVar("Number", int, Ints)


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything that is learnt; V tokens, C known contexts, K continuations, D features.

    `contexts3[a + 1, t]` is the number of the context "a then t", or -1; a = -1 says that nothing
    stands before t, a = V that it is not known what does.
    Longer contexts are found by searching `keys4` (token before, number of the shorter context)
    and `keys5` likewise. `patch_*` say for each context which continuations become how much more
    likely than the token pair alone makes them; padding repeats the first continuation.
    """

    merges: NDArray[np.int32]  # (M, 2)
    bigram: Floats  # (V, V) log-probabilities of the next token given the current one
    contexts3: NDArray[np.int32]  # (V + 2, V)
    keys4: Ints
    values4: NDArray[np.int32]
    keys5: Ints
    values5: NDArray[np.int32]
    patch_tokens: NDArray[np.int32]  # (C, K)
    patch_logits: Floats  # (C, K)
    embedding: Floats  # (V + 1, D): what a token writes into the memory; last row: nothing
    decay: Floats  # (D,) what the memory keeps from one position to the next
    projection: Floats  # (F, V) whole numbers, see `lm`


def context_key(shorter: Number, token: Number, vocab_size: int) -> Number:
    """Return the search key of a context: the token before a known shorter context.

    The token may be -1 (nothing is there) or vocab_size (not known: no context has it).
    """
    return shorter * (vocab_size + 2) + token + 1


def load_weights(path: Path) -> Weights | None:
    """Read cached weights; None when there are none or the file is damaged."""
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file) as arrays:
            return Weights(**{field.name: arrays[field.name] for field in fields(Weights)})
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None


def save_weights(weights: Weights, path: Path) -> None:
    """Write weights atomically; a cache that cannot be written is simply not kept."""
    arrays: dict[str, Any] = {field.name: getattr(weights, field.name) for field in fields(Weights)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError:
        return


def cache_folder() -> Path:
    """Return the user's cache folder of the engine (`XDG_CACHE_HOME` is obeyed)."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "specbench" / "engine"
