"""Losslessness verdicts: the document of contract section 7."""

from typing import Any, Literal

import msgspec

from specbench.model.matrix import Level

VerdictName = Literal["holds", "violated", "inconclusive"]
Ground = Literal["", "witness", "fails", "test", "e-process"]
"""What convicts a violated claim: wrong tokens that came again, an event that must not happen and
came again, a p-value that fresh requests confirmed, an e-process; empty where nothing does."""

SuspectCode = Literal[
    "",
    "mask_compaction",
    "mask_positions",
    "mask_bonus",
    "batch",
    "sampling_kernel",
    "residual",
    "temperature",
    "filter",
    "drafter_bias",
    "logprobs",
    "greedy_sampling",
    "deep_context",
    "stale_root",
    "leafless",
    "unchecked",
    "stage",
    "upstream",
]

TREE_SUSPECTS = frozenset({"mask_compaction", "mask_positions", "mask_bonus"})
"""Codes of suspects that speak of what a tree has and a chain has not."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the server to look at first: `code` for programs, `text` for people."""

    text: str
    code: SuspectCode = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim with its method, sample size, effect and interval.

    `known_gap` names a documented upstream behaviour that explains a violation in full: such a
    claim is shown and set aside. `profile` is Z by place within the verify round. `finding` says
    in words what convicts a violated claim: its size, what losslessness allows, and on how much;
    `ground` says the same for programs, and `test` names the test where a p-value convicts.
    `shows` is a shell command whose counts show a sampled violation again, where one can.
    `concurrency` was asked for, `concurrency_effective` is the most that the server ran at once by
    its own count (None where it does not say).
    """

    name: str
    verdict: VerdictName
    method: str
    n_tokens: int
    concurrency: int
    concurrency_effective: int | None = None
    temperature: float | None = None
    p: float | None = None
    effect: dict[str, float] = {}
    ci: list[float] = []
    note: str = ""
    known_gap: str = ""
    finding: str = ""
    ground: Ground = ""
    shows: str = ""
    test: str = ""
    profile: dict[str, float] = {}


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """A reproduced wrong token; `margin_nat` is how far the target's argmax is above it.

    `shows` is a shell command that asks for the wrong token again, in a batch where one was needed;
    `curl` one that shows the target's own choice there.
    """

    prompt_ids: list[int]
    position: int
    token: int
    target_argmax: int
    margin_nat: float
    curl: str
    shows: str = ""
    stage: str = ""


class IntegrityFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that does not add up whatever the verdict: counters, logprobs, text against ids."""

    name: str
    finding: str


class VerdictDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer of `verify`, as written to verdicts/*.json.

    `evidence` is the level of evidence (`scores`, `one_token_scores`, `draws` or `text`), `costs`
    what each missing ability of the server costs;
    `reason` is the verdict's ground in one sentence; `needed` holds `tokens` and `minutes` still
    missing for a decision; `stats` what was spent (tokens generated and scored, seconds, seed).
    `findings` is the whole in Markdown, for people; `notes` are those of its lines that no other
    field has.
    """

    schema: int = 1
    verdict: VerdictName
    resolution: dict[str, float | None] = {}
    claims: list[Claim] = []
    witnesses: list[Witness] = []
    integrity: list[IntegrityFinding] = []
    not_tested: list[str] = []
    needed: dict[str, float] = {}
    suspects: list[Suspect] = []
    findings: str = ""
    notes: list[str] = []
    reason: str = ""
    evidence: str = ""
    costs: list[str] = []
    stats: dict[str, Any] = {}
    server: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    prompts_sha256: str = ""
    sampling: dict[str, Any] = {}
    specbench: str = ""

    @property
    def exit_status(self) -> int:
        """0 holds, 1 violated or an integrity finding, 5 inconclusive (contract section 2)."""
        if self.verdict == "violated" or self.integrity:
            return 1
        return 0 if self.verdict == "holds" else 5


class RecordedVerdict(VerdictDocument, frozen=True, kw_only=True):
    """A verdict of a run, with the launch that it is about: a file of `verdicts/`."""

    trial_id: str = ""
    block_id: str = ""
    launch_fingerprint: str = ""
    host: str = ""
    levels: dict[str, Level] = {}
