"""What a server is, in the same words for every product; and doubts about it."""

from typing import Any

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A doubt about the server. `flag` goes into the rows; `fatal` ones must not be measured."""

    flag: str
    explanation: str
    fatal: bool = False


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a running server says of itself; None, empty and "" where it does not say.

    `product` names the backend that read its answers. `algorithm` is the drafter's name in the
    server's own spelling, None for plain decoding; `speculative` None: the server does not say.
    `draft_tokens` counts what one verify step looks at, its root included; `draft_depth` is the
    longest chain of drafts in it, `tree_width` the candidates a node. `thresholds` are the accept
    thresholds (single, accumulated): below 1 the server is lossy by configuration. `running_cap` is
    the number of requests that run at once. `sizes` are the parallel sizes by factor (tp, pp, dp,
    ep); `attention_dp` says that replicas share the tensor-parallel GPUs. `simulated` tells how
    acceptance is an input, `reference_engine` that it is the embedded engine, whose clock is that
    of a `modelled_gpu` and which commits `faults` on purpose.
    `process_identity` changes when another process answers. `accept_len` is the server's own figure
    over its lifetime. `steps_a_log_line` is how often it writes
    about its batch. `shown` is what a report of a verification lists.
    """

    product: str = ""
    version: str | None = None
    model: str | None = None
    served_name: str | None = None
    speculative: bool | None = None
    algorithm: str | None = None
    draft_tokens: int | None = None
    draft_depth: int | None = None
    tree_width: int | None = None
    drafter: str | None = None
    thresholds: tuple[float | None, float | None] = (None, None)
    running_cap: int | None = None
    sizes: dict[str, int] = {}
    attention_dp: bool | None = None
    graphs: bool | None = None
    overlap: bool | None = None
    prefix_cache: bool | None = None
    simulated: str = ""
    reference_engine: bool = False
    modelled_gpu: str = ""
    faults: tuple[str, ...] = ()
    process_identity: str = ""
    accept_len: float | None = None
    context: int | None = None
    vocab: int | None = None
    device: str = ""
    steps_a_log_line: int | None = None
    shown: dict[str, Any] = {}

    @property
    def gpus(self) -> int | None:
        """Count the GPUs of the server; None where it does not say all of its sizes."""
        sizes = [self.sizes.get(name) for name in ("tp", "pp", "dp")]
        tp, pp, dp = sizes
        if tp is None or pp is None or dp is None:
            return None
        return tp * pp * (1 if self.attention_dp else dp)
