"""The modelled hardware: how long a step of a batch would take on a GPU.

A forward pass of `n` requests with `w` tokens each takes

    layers * latency + sqrt(memory^2 + compute^2) + exchange
    memory  = (weights + KV bytes read) / (bandwidth * 0.60 * shards)
    compute = 2 * active parameters * n * w / (FLOP/s * 0.18 * shards)

a roofline with a soft corner: at small batches the weights are read once for everybody and the
width of a verification is free; at large ones every drafted token is paid for. A speculative round
adds the forwards of its drafter and a fixed cost of the host, and every request adds host time. The
four constants were fitted to one public table; docs/explanation/clock.md tells which, and how well.
"""

import time
from dataclasses import dataclass

BANDWIDTH_EFFICIENCY = 0.60
COMPUTE_EFFICIENCY = 0.18
PREFILL_EFFICIENCY = 0.45
LAYER_S = 60e-6
EAGER_LAYER_S = 140e-6
REQUEST_S = 54e-6
SPECULATION_S = 2.22e-3
NO_OVERLAP_S = 0.6e-3
TREE_NODE_S = 1.5e-6
LINK_LATENCY_S = 8e-6
EXPERT_BALANCE = 0.85
BYTES_PER_WEIGHT = 2.0

LATE_S = 1e-3
MAX_DEBT_S = 0.25


@dataclass(frozen=True)
class Gpu:
    """One accelerator: bytes/s, dense bf16 FLOP/s, memory bytes, bytes/s of its link."""

    name: str
    bandwidth: float
    flops: float
    memory: float
    link: float


@dataclass(frozen=True)
class ModelSize:
    """What the clock knows of a model: parameter counts, layers, KV bytes a token, hidden size.

    `active` parameters work on each token; the rest are experts, read as soon as a token needs
    them. `draft` is the size of its block drafter.
    """

    name: str
    total: float
    active: float
    layers: int
    kv_bytes: float
    hidden: int
    draft: float


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("b300", 8.0e12, 2.25e15, 288e9, 900e9),
        Gpu("b200", 8.0e12, 2.25e15, 192e9, 900e9),
        Gpu("h200", 4.8e12, 989e12, 141e9, 450e9),
        Gpu("h100", 3.35e12, 989e12, 80e9, 450e9),
        Gpu("a100", 2.04e12, 312e12, 80e9, 300e9),
        Gpu("l40s", 0.864e12, 362e12, 48e9, 32e9),
        Gpu("a6000", 0.768e12, 155e12, 48e9, 32e9),
        Gpu("rtx4090", 1.01e12, 165e12, 24e9, 32e9),
        Gpu("rtx3090", 0.936e12, 71e12, 24e9, 32e9),
    )
}

MODELS = {
    size.name: size
    for size in (
        ModelSize("qwen3.5-4b", 4.0e9, 4.0e9, 32, 32e3, 2560, 0.9e9),
        ModelSize("qwen3-4b", 4.0e9, 4.0e9, 36, 147e3, 2560, 0.9e9),
        ModelSize("qwen3-8b", 8.2e9, 8.2e9, 36, 147e3, 4096, 1.3e9),
        ModelSize("llama-3.1-8b", 8.0e9, 8.0e9, 32, 131e3, 4096, 1.3e9),
        ModelSize("qwen3-30b-a3b", 30.5e9, 3.3e9, 48, 98e3, 2048, 0.8e9),
        ModelSize("qwen3-32b", 32.8e9, 32.8e9, 64, 262e3, 5120, 2.4e9),
        ModelSize("llama-3.3-70b", 70.6e9, 70.6e9, 80, 328e3, 8192, 3.4e9),
        ModelSize("deepseek-v3", 671e9, 37e9, 61, 70e3, 7168, 3.0e9),
        ModelSize("kimi-k2", 1026e9, 32e9, 61, 70e3, 7168, 3.0e9),
    )
}
DEFAULT_MODEL = "qwen3.5-4b"


def guess_model(path: str) -> str:
    """Name the model size whose name occurs in the path; the default one otherwise."""
    plain = path.lower()
    names = sorted(MODELS, key=len, reverse=True)
    return next((name for name in names if name in plain), DEFAULT_MODEL)


@dataclass(frozen=True)
class Round:
    """What one decode round of the engine does, as far as its time is concerned.

    `width` tokens are verified for each request; the drafter runs `draft_forwards` passes over
    `draft_width` tokens each, on `draft_share` of the block drafter's size.
    """

    width: int = 1
    draft_forwards: int = 0
    draft_width: int = 0
    draft_share: float = 0.0
    draft_layers: int = 0
    speculative: bool = False
    tree_nodes: int = 0
    overlap: bool = True


def round_of(
    algorithm: str | None, *, steps: int, topk: int, width: int, block: int, overlap: bool = True
) -> Round:
    """Describe the round of an algorithm, in SGLang's names; None is plain decoding."""
    match algorithm:
        case None:
            return Round(overlap=overlap)
        case "DFLASH":
            return Round(width, 1, width, 1.0, 5, speculative=True, overlap=overlap)
        case "DDTREE":
            return Round(
                width, 1, block, 1.0, 5, speculative=True, tree_nodes=width, overlap=overlap
            )
        case "STANDALONE":
            return Round(width, steps, topk, 0.6, 24, speculative=True, overlap=overlap)
        case "NGRAM":
            return Round(width, speculative=True, tree_nodes=width, overlap=overlap)
        case _:
            return Round(width, steps, topk, 0.35, 1, speculative=True, overlap=overlap)


@dataclass(frozen=True)
class Clock:
    """Seconds of prefills and rounds on `shards` GPUs (tensor, expert, pipeline, data parallel)."""

    gpu: Gpu
    model: ModelSize
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    graph_max_bs: int = 256

    def step_s(self, shape: Round, n: int, kv_tokens: int) -> float:
        """Seconds of one decode round of `n` requests that hold `kv_tokens` in the KV cache."""
        if n == 0:
            return 0.0
        local = -(-n // self.dp)
        kv_bytes = kv_tokens / self.dp * self.model.kv_bytes
        graph = local <= self.graph_max_bs
        seconds = self._forward(self.model.layers, local * shape.width, kv_bytes, graph=graph)
        seconds += local * REQUEST_S
        if shape.speculative:
            seconds += SPECULATION_S + shape.tree_nodes * local * TREE_NODE_S
        for _ in range(shape.draft_forwards):
            seconds += self._draft(shape, local * shape.draft_width, graph=graph)
        return seconds if shape.overlap else seconds + NO_OVERLAP_S + local * REQUEST_S / 2

    def prefill_s(self, new_tokens: int, cached_tokens: int = 0) -> float:
        """Seconds of a prefill of `new_tokens` that attend to `cached_tokens` more."""
        flops = 2 * self.model.active * new_tokens
        compute = flops / (self.gpu.flops * PREFILL_EFFICIENCY * self.tp)
        read = (cached_tokens + new_tokens) * self.model.kv_bytes
        memory = (self._weights(new_tokens) + read) / self._bandwidth()
        launch = self.model.layers * EAGER_LAYER_S
        exchange = self._exchange(self.model.layers, new_tokens)
        return launch + max(compute, memory) + exchange

    def chunked_prefill_s(self, new_tokens: int, cached_tokens: int, chunk: int) -> float:
        """Seconds of a prefill that is cut into chunks, each of which attends to those before."""
        whole = new_tokens if chunk <= 0 else chunk
        starts = range(0, new_tokens, whole)
        return sum(self.prefill_s(min(whole, new_tokens - at), cached_tokens + at) for at in starts)

    def _forward(self, layers: int, tokens: int, kv_bytes: float, *, graph: bool) -> float:
        memory = (self._weights(tokens) + kv_bytes) / self._bandwidth()
        flops = 2 * self.model.active * tokens
        compute = flops / (self.gpu.flops * COMPUTE_EFFICIENCY * self.tp)
        latency = layers * (LAYER_S if graph else EAGER_LAYER_S)
        return latency + float((memory**2 + compute**2) ** 0.5) + self._exchange(layers, tokens)

    def _draft(self, shape: Round, tokens: int, *, graph: bool) -> float:
        size = self.model.draft * shape.draft_share
        memory = size * BYTES_PER_WEIGHT / self._bandwidth()
        compute = 2 * size * tokens / (self.gpu.flops * COMPUTE_EFFICIENCY * self.tp)
        latency = shape.draft_layers * (LAYER_S if graph else EAGER_LAYER_S)
        return latency + float((memory**2 + compute**2) ** 0.5)

    def _weights(self, tokens: int) -> float:
        """Bytes of the weights that a pass over `tokens` tokens touches: all of a dense model's.

        With expert parallelism the slowest rank holds more than its share of the experts used.
        """
        dense = self.model.active
        share = 1 - (1 - self.model.active / self.model.total) ** max(tokens, 1)
        experts = (self.model.total - dense) * share
        return (dense + experts / (EXPERT_BALANCE if self.ep > 1 else 1.0)) * BYTES_PER_WEIGHT

    def _bandwidth(self) -> float:
        return self.gpu.bandwidth * BANDWIDTH_EFFICIENCY * self.tp

    def _exchange(self, layers: int, tokens: int) -> float:
        hop = self.model.hidden * 2.0 * tokens / self.gpu.link
        stages = (self.pp - 1) * (LINK_LATENCY_S + hop)
        if self.tp == 1:
            return stages
        if self.ep > 1:  # dispatch and combine between the ranks that hold the experts
            stages += layers * 2 * LINK_LATENCY_S
        return stages + 2 * layers * (LINK_LATENCY_S + 2 * hop * (self.tp - 1) / self.tp)


class Pace:
    """Absolute deadlines of modelled time: a late step does not push the next one back.

    `scale` 0 models no time. A step that ends more than a millisecond late is counted, and the next
    ones catch up, by at most MAX_DEBT_S: a measurement with many late steps shows this machine, not
    the modelled one.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.steps = self.late_steps = 0
        self._deadline: float | None = None

    def start(self, seconds: float, since: float | None = None) -> float | None:
        """Begin a step of modelled `seconds`; return when it must end (monotonic), or None.

        After a rest the step began when the work came, at `since` (None: now): what this machine
        took to get to it is not the modelled one's.
        """
        if self.scale <= 0:
            return None
        now = time.monotonic()
        came = now if since is None else since
        began = max(came if self._deadline is None else self._deadline, now - MAX_DEBT_S)
        self._deadline = began + seconds * self.scale
        self.steps += 1
        return self._deadline

    def finish(self) -> None:
        """Note whether the step, which is being delivered, is late."""
        if self._deadline is not None:
            self.late_steps += time.monotonic() - self._deadline > LATE_S

    def rest(self) -> None:
        """Nothing is left to do: the next step begins when it comes."""
        self._deadline = None
