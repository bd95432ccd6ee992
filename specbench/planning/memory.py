"""Whether a server fits into its GPUs, said before a launch that must fail."""

from collections.abc import Iterator, Mapping, Sequence

from specbench.model.bill import Gpu, ModelFacts
from specbench.model.plan import Asked, Block
from specbench.planning.durations import shards_of, slots_of

SHARE_FLAGS = ("mem-fraction-static", "gpu-memory-utilization")
"""Flags that say which share of a GPU weights and KV cache may take."""


def memory_notices(
    blocks: Sequence[Block], model: ModelFacts | None, gpus: Mapping[str, Gpu | None]
) -> Iterator[str]:
    """Say which servers cannot hold their weights, or not the tokens of their largest load.

    A draft model's own weights come on top: what is said here is the least that must be free.
    """
    if model is None:
        return
    said: dict[str, None] = {}
    for block in blocks:
        gpu = gpus.get(block.host)
        if gpu is not None and (problem := _problem(block, model, gpu)):
            said[f"{block.host}: {problem}"] = None
    yield from said


def _problem(block: Block, model: ModelFacts, gpu: Gpu) -> str | None:
    shards = shards_of(block)
    gives = gpu.memory * _share(block) * shards
    if model.weight_bytes > gives:
        return (
            f"weights of {model.weight_bytes / 1e9:,.0f} GB do not fit into the {gives / 1e9:,.0f}"
            f" GB that {shards} GPUs give: such a launch must fail; use more GPUs (tp)"
        )
    room = (gives - model.weight_bytes) / model.kv_bytes if model.kv_bytes else None
    needs = max((_tokens(trial.asked) for trial in block.trials if trial.asked), default=0)
    if room is not None and needs > room:
        return (
            f"the KV cache holds {room:,.0f} tokens beside the weights, and replies of the largest"
            f" load come to {needs:,}: requests will wait or be retracted"
        )
    return None


def _share(block: Block) -> float:
    flags = dict(block.spec.flags)
    found = (flags.get(name) for name in SHARE_FLAGS)
    return next((float(share) for share in found if isinstance(share, int | float)), 0.9)


def _tokens(asked: Asked) -> int:
    return slots_of(asked.shape) * asked.workload.max_tokens
