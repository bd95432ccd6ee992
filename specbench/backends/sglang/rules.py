"""What an SGLang server cannot run, known before it is launched: a matrix cell is then invalid.

Rules of SGLang 0.5.23 (arg_groups/speculative_hook.py, arg_groups/validation_hook.py), by the flags
that would be given. A flag value that the server would rewrite in silence is refused too: the cell
would be named for something that did not run. Algorithms of forks are left to their server, except
for what their pull request says.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec

EAGLE_FAMILY = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "FROZEN_KV_MTP"})
REJECTION_SAMPLING = frozenset({"EAGLE", "EAGLE3", "NEXTN"})
PIPELINED = frozenset({"EAGLE", "EAGLE3", "NEXTN"})
TREE_WITH_PAGES = frozenset({"flashinfer", "fa3", "triton"})
LARGEST_TREE = 1024

FIRST_VERSION = {
    "STANDALONE": "0.5.2",
    "NGRAM": "0.5.5",
    "DFLASH": "0.5.12",
    "DSPARK": "0.5.18",
    "UNO": "0.5.20",
}
"""First release in which each algorithm was seen (releases in between were not looked at)."""

FLAG_APPEARED_AFTER = {
    "admin-api-key": "0.5.5.post3",
    "attn-dp-size": "0.5.20",
    "enable-deterministic-inference": "0.5.2",
}
"""Last release that was seen without the flag."""

FLAG_GONE_BY = {
    "cuda-graph-bs": "0.5.20",
    "cuda-graph-max-bs": "0.5.20",
    "speculative-dflash-draft-window-size": "0.5.20",
}
"""First release that was seen without the flag."""


@dataclass(frozen=True)
class Launch:
    """A launch as the server would see it."""

    flags: dict[str, Level]
    env: dict[str, str]

    @property
    def algorithm(self) -> str:
        """The speculative algorithm in SGLang's spelling; empty for plain decoding."""
        return str(self.flags.get("speculative-algorithm") or "").upper()

    def number(self, flag: str, default: int | None = None) -> int | None:
        """Return a flag's whole number, or the default where it is not given as one."""
        value = self.flags.get(flag)
        if isinstance(value, bool) or not isinstance(value, int):
            return default
        return value

    def size(self, flag: str) -> int:
        """Return a parallel size, 1 where it is not given."""
        return self.number(flag, 1) or 1

    def text(self, flag: str) -> str:
        """Return a flag as text; empty where it is not given."""
        value = self.flags.get(flag)
        return "" if value is None else str(value)

    def has(self, flag: str) -> bool:
        """Whether a switch is on."""
        return self.flags.get(flag) is True

    @property
    def attention_dp(self) -> bool:
        """Whether attention is data parallel."""
        return self.size("attn-dp-size") > 1 or self.has("enable-dp-attention")


def invalid_reason(spec: LaunchSpec, version: str | None = None) -> str | None:
    """Say in one sentence why an SGLang server cannot run a launch, or None if it may.

    `version` is the server's; None or a fork's own name means: as 0.5.23.
    """
    launch = Launch(dict(spec.flags), dict(spec.env))
    for rule in (_by_version(version), *RULES):
        for reason in rule(launch):
            return reason
    return None


def _by_version(version: str | None) -> Callable[[Launch], Iterator[str]]:
    from packaging.version import (  # noqa: PLC0415 - absent where only load is driven
        InvalidVersion,
        Version,
    )

    try:
        installed = Version(version) if version else None
    except InvalidVersion:
        installed = None
    if installed is not None and installed.is_devrelease:
        installed = Version(installed.base_version)

    def rule(launch: Launch) -> Iterator[str]:
        if installed is None:
            return
        first = FIRST_VERSION.get(launch.algorithm)
        if first and installed < Version(first):
            yield f"{launch.algorithm} needs SGLang {first}; this is {version}"
        for flag in launch.flags:
            if flag in FLAG_APPEARED_AFTER and installed <= Version(FLAG_APPEARED_AFTER[flag]):
                yield f"--{flag} does not exist in SGLang {version}"
            if flag in FLAG_GONE_BY and installed >= Version(FLAG_GONE_BY[flag]):
                yield f"--{flag} no longer exists in SGLang {version}"

    return rule


def _parallel(launch: Launch) -> Iterator[str]:
    tp = launch.size("tp-size")
    for flag, what in (("ep-size", "expert"), ("attn-dp-size", "attention data")):
        if tp % launch.size(flag):
            yield f"{what} parallel size {launch.size(flag)} does not divide tp {tp}"
    if launch.size("dp-size") > 1 and launch.size("nnodes") > 1 and not launch.attention_dp:
        yield "dp replicas are not allowed on several nodes (dp-size > 1 with nnodes > 1)"


def _pipeline(launch: Launch) -> Iterator[str]:
    """Pipeline parallelism runs with single-layer EAGLE only, behind an environment variable."""
    name = launch.algorithm
    if launch.size("pp-size") == 1 or not name:
        return
    if name not in PIPELINED or launch.has("enable-multi-layer-eagle"):
        yield f"{name} does not run with pipeline parallelism (pp-size > 1)"
    elif not launch.has("disable-overlap-schedule"):
        yield f"{name} with pp-size > 1 needs disable-overlap-schedule"
    elif launch.env.get("SGLANG_ENABLE_PP_SPEC", "").lower() not in ("1", "true"):
        yield f"{name} with pp-size > 1 needs the environment variable SGLANG_ENABLE_PP_SPEC=1"
    elif launch.has("speculative-adaptive") or launch.attention_dp:
        yield f"{name} with pp-size > 1 runs neither adaptive nor with attention data parallelism"


def _eagle(launch: Launch) -> Iterator[str]:
    """Hold steps, topk and verify width of the EAGLE family together."""
    if launch.algorithm not in EAGLE_FAMILY:
        return
    steps = launch.number("speculative-num-steps")
    topk = launch.number("speculative-eagle-topk")
    width = launch.number("speculative-num-draft-tokens")
    if steps is None:
        if topk is not None or width is not None:
            yield (
                f"{launch.algorithm} needs steps (speculative-num-steps) as soon as topk or the "
                "number of draft tokens is given"
            )
        return
    if topk == 1 and width not in (None, steps + 1):
        yield (
            f"with topk 1 SGLang verifies steps + 1 = {steps + 1} tokens and would ignore "
            f"speculative-num-draft-tokens {width} in silence"
        )
    # Draft tokens are the best of topk roots and topk * topk candidates a further step.
    if topk and width and width - 1 > topk + (steps - 1) * topk * topk:
        yield f"a tree of {steps} steps and topk {topk} has no {width - 1} nodes to choose from"
    if width and width > LARGEST_TREE:
        yield f"the tree kernels verify at most {LARGEST_TREE} tokens, not {width}"


def _pages(launch: Launch) -> Iterator[str]:
    """Trees over pages of more than one token need certain attention backends."""
    name = launch.algorithm
    paged = launch.size("page-size") > 1
    backend = launch.text("attention-backend")
    eagle_topk = launch.number("speculative-eagle-topk", 1) or 1
    if name in EAGLE_FAMILY and eagle_topk > 1:
        if paged and backend and backend not in TREE_WITH_PAGES:
            yield f"topk > 1 with page-size > 1 needs flashinfer, fa3 or triton, not {backend}"
        if backend == "trtllm_mha":
            yield "the backend trtllm_mha supports topk 1 only"
    breadth = launch.number("speculative-ngram-max-bfs-breadth", 10) or 1
    if name == "NGRAM" and paged and breadth > 1 and backend not in ("", "flashinfer"):
        yield f"NGRAM with breadth > 1 and page-size > 1 needs flashinfer, not {backend}"
    if name == "DDTREE" and paged:
        yield "DDTREE needs page-size 1 (sgl-project/sglang pull request 29907)"


def _chains(launch: Launch) -> Iterator[str]:
    """DFLASH verifies one block; whatever would make it a tree is rewritten in silence."""
    if launch.algorithm not in ("DFLASH", "DSPARK"):
        return
    for flag in ("speculative-eagle-topk", "speculative-num-steps"):
        value = launch.number(flag)
        if value is not None and value != 1:
            yield f"{launch.algorithm} forces {flag} to 1 and would ignore {value} in silence"
    block = launch.number("speculative-dflash-block-size")
    width = launch.number("speculative-num-draft-tokens")
    if launch.algorithm == "DFLASH" and block and width and block != width:
        yield f"DFLASH needs equal block size and number of draft tokens, not {block} and {width}"
    window = launch.number("speculative-draft-window-size")
    if block and window and window < block:
        yield f"the draft window {window} is smaller than the block {block}"
    if launch.attention_dp and not launch.has("enable-dp-lm-head"):
        yield f"{launch.algorithm} with attention data parallelism needs enable-dp-lm-head"
    if launch.algorithm == "DFLASH" and launch.text("device") == "cpu":
        yield "DFLASH does not run on the CPU"


def _attention_dp(launch: Launch) -> Iterator[str]:
    if launch.attention_dp and launch.algorithm in ("STANDALONE", "NGRAM"):
        yield f"{launch.algorithm} does not run with attention data parallelism"


def _verification(launch: Launch) -> Iterator[str]:
    """Rejection sampling, block verification and adaptive steps are for chains of some drafters."""
    name = launch.algorithm
    topk = launch.number("speculative-eagle-topk", 1)
    if launch.has("speculative-use-rejection-sampling") and name:
        thresholds = ("speculative-accept-threshold-single", "speculative-accept-threshold-acc")
        if name not in REJECTION_SAMPLING or topk != 1:
            yield "rejection sampling needs EAGLE, EAGLE3 or NEXTN with topk 1"
        elif any(launch.flags.get(flag, 1) not in (1, 1.0) for flag in thresholds):
            yield "rejection sampling needs accept thresholds of 1.0"
    chain = (name in EAGLE_FAMILY and topk == 1) or name in ("DFLASH", "DSPARK", "")
    if launch.has("speculative-use-block-verification") and not chain:
        yield "block verification needs an EAGLE chain (topk 1), DFLASH or DSPARK"
    if launch.has("speculative-adaptive") and name and (name not in PIPELINED or topk != 1):
        yield "adaptive steps need EAGLE or EAGLE3 with topk 1"


def _uno(launch: Launch) -> Iterator[str]:
    if launch.algorithm != "UNO":
        return
    if launch.size("tp-size") > 1 or launch.size("pp-size") > 1:
        yield "UNO runs on one GPU only (tp 1, pp 1)"
    if launch.has("enable-deterministic-inference"):
        yield "UNO refuses deterministic inference"


RULES: tuple[Callable[[Launch], Iterator[str]], ...] = (
    _parallel,
    _pipeline,
    _eagle,
    _pages,
    _chains,
    _attention_dp,
    _verification,
    _uno,
)
