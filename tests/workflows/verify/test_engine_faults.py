"""The battery against the embedded engine: a few cells of benchmarks/fault_matrix.py."""

from dataclasses import replace

import pytest

from benchmarks.engine_client import EngineClient
from specbench.analysis.lossless.sampled import SampledMargins
from specbench.engine.lm import LanguageModel, load_language
from specbench.engine.speculation import SpeculationConfig
from specbench.model.verdict import VerdictDocument
from specbench.workflows.verify.battery import run_battery
from specbench.workflows.verify.events import VerdictReady
from specbench.workflows.verify.options import BUDGETS, HOT, S1, VerifyOptions

pytestmark = pytest.mark.slow
TREE = SpeculationConfig.ddtree(budget=16, topk=4)
SMALL = replace(
    BUDGETS["quick"],
    margins=SampledMargins(t_eff_pct=30.0, excess_greedy_pct=20.0, garbage_pct=0.5),
    sampled=((S1, 2200), (HOT, 1200)),
    length=48,
    batched=16,
    kernel=12,
)


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    return load_language()


def verify(
    language: LanguageModel, *faults: str, noise: float = 0.02, fail_fast: bool = True
) -> VerdictDocument:
    client = EngineClient(language, TREE, faults, noise_sd=noise)
    *_, last = run_battery(client, VerifyOptions(sizes=SMALL, fail_fast=fail_fast))
    assert isinstance(last, VerdictReady)
    return last.document


def test_the_clean_tree_engine_holds_under_noise(language: LanguageModel) -> None:
    document = verify(language, noise=0.05)

    assert document.verdict == "holds", document.findings
    assert document.stats["generated_tokens"] <= 13_000
    assert not document.integrity


def test_greedy_verification_holds_at_zero_and_is_violated_above(language: LanguageModel) -> None:
    document = verify(language, "greedy-verify", fail_fast=False)

    found = {c.name: c.verdict for c in document.claims}
    assert document.verdict == "violated"
    assert {v for n, v in found.items() if n.startswith(("greedy", "top_k=1"))} == {"holds"}
    assert "greedy at temperature > 0" in document.suspects[0]
    assert document.stats["generated_tokens"] <= 13_000


@pytest.mark.parametrize(
    "fault",
    [
        "wrong-row-accept",
        "kv-commit-off-by-one",
        "kv-path-not-compacted",
        "corrupt-at-concurrency",
        "kv-cached-prefix-corrupt",
        "logit-bias-ignored",
        "penalties-ignored",
        "top-p-ignored",
        "temperature-ignored",
    ],
)
def test_faults_are_violations_within_quick(language: LanguageModel, fault: str) -> None:
    assert verify(language, fault).verdict == "violated"


@pytest.mark.parametrize("fault", ["counters-lie", "max-new-tokens-overrun"])
def test_dishonest_accounts_are_integrity_findings(language: LanguageModel, fault: str) -> None:
    document = verify(language, fault)

    assert document.integrity
    assert document.exit_status == 1
