"""Losslessness verdicts: the document of contract section 7."""

from typing import Any, Literal

import msgspec

VerdictName = Literal["holds", "violated", "inconclusive"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim with its method, sample size, effect and interval.

    `known_gap` names a documented upstream behaviour that explains a violation in full: such a
    claim is shown and set aside. `profile` is Z by place within the verify round. `finding` says
    in words what convicts a violated claim: its size, what losslessness allows, and on how much.
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
    profile: dict[str, float] = {}


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """A reproduced wrong token; `margin_nat` is how far the target's argmax is above it."""

    prompt_ids: list[int]
    position: int
    token: int
    target_argmax: int
    margin_nat: float
    curl: str
    stage: str = ""


class IntegrityFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that does not add up whatever the verdict: counters, logprobs, text against ids."""

    name: str
    finding: str


class VerdictDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer of `verify`, as written to verdicts/*.json.

    `reason` is the verdict's ground in one sentence; `needed` holds `tokens` and `minutes` still
    missing for a decision; `stats` what was spent (tokens generated and scored, seconds, seed).
    """

    schema: int = 1
    verdict: VerdictName
    resolution: dict[str, float | None] = {}
    claims: list[Claim] = []
    witnesses: list[Witness] = []
    integrity: list[IntegrityFinding] = []
    not_tested: list[str] = []
    needed: dict[str, float] = {}
    suspects: list[str] = []
    findings: str = ""
    reason: str = ""
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
