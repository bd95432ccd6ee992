"""Which drafter, how wide, and how it is judged: the resolved speculative arguments of a launch."""

from dataclasses import dataclass
from typing import Literal, Self

from specbench.engine.tree_builders import StepShape

Algorithm = Literal["ar", "dflash", "ddtree", "eagle", "standalone", "ngram"]

STANDALONE_REACH = 1  # tokens before the current one that the independent draft model sees
DEFAULT_QUALITY = 0.85  # accept lengths of 3 to 5, as published drafts reach
CHECKPOINT_BLOCK = 16  # block size that the DFlash draft "was trained with", root included


@dataclass(frozen=True, slots=True)
class SpeculationConfig:
    """Arguments of SGLang's `--speculative-*` flags after resolution.

    num_draft_tokens is the width of the verify step, root included. num_steps is the drafted
    depth (for ddtree: positions of the draft block), topk the candidates of a position or step.
    quality: of the draft model, see `DraftModel`.
    """

    algorithm: Algorithm = "ar"
    num_steps: int = 0
    topk: int = 1
    num_draft_tokens: int = 1
    quality: float = DEFAULT_QUALITY
    accept_threshold_single: float = 1.0
    accept_threshold_acc: float = 1.0
    use_rejection_sampling: bool = False
    use_block_verification: bool = False

    @property
    def samples_drafts(self) -> bool:
        """Whether drafts are sampled and verified by p / q, which needs chains."""
        return self.use_rejection_sampling or self.use_block_verification

    @property
    def step_shape(self) -> StepShape:
        """The shape of EAGLE's tree."""
        return StepShape(self.num_steps, self.topk, self.num_draft_tokens)

    @classmethod
    def ar(cls) -> Self:
        """Plain autoregressive decoding."""
        return cls()

    @classmethod
    def dflash(cls, block_size: int = CHECKPOINT_BLOCK, quality: float = DEFAULT_QUALITY) -> Self:
        """Linear DFlash: block_size - 1 drafted tokens."""
        return cls("dflash", block_size - 1, 1, block_size, quality)

    @classmethod
    def ddtree(cls, budget: int = 16, topk: int = 4, quality: float = DEFAULT_QUALITY) -> Self:
        """DDTree with `budget` drafted nodes.

        The tree is as deep as the draft block, 15 positions, and no deeper than its budget. With
        topk 1 the tree is a chain and the block is as long as the budget, so that it is the
        chain of DFlash with block size budget + 1.
        """
        depth = budget if topk == 1 else min(budget, CHECKPOINT_BLOCK - 1)
        return cls("ddtree", depth, topk, budget + 1, quality)

    @classmethod
    def eagle(
        cls, num_steps: int, topk: int, num_draft_tokens: int, quality: float = DEFAULT_QUALITY
    ) -> Self:
        """EAGLE's step tree."""
        return cls("eagle", num_steps, topk, num_draft_tokens, quality)

    @classmethod
    def standalone(
        cls, num_steps: int, topk: int, num_draft_tokens: int, quality: float = DEFAULT_QUALITY
    ) -> Self:
        """Step tree of an independent draft model."""
        return cls("standalone", num_steps, topk, num_draft_tokens, quality)

    @classmethod
    def ngram(cls, num_draft_tokens: int = 12, breadth: int = 10) -> Self:
        """Continuations of earlier text."""
        return cls("ngram", num_draft_tokens - 1, breadth, num_draft_tokens)
