"""The embedded engine as a server of each level of evidence: a part of the fault table."""

import pytest

from benchmarks.engine_client import EngineClient
from specbench.engine.lm import LanguageModel, load_language
from specbench.engine.speculation import SpeculationConfig
from specbench.model.verdict import VerdictDocument
from specbench.verify.battery import run_battery
from specbench.verify.events import VerdictReady
from specbench.verify.options import VerifyOptions

pytestmark = pytest.mark.slow
TREE = SpeculationConfig.ddtree(budget=16, topk=4)
DRAWS = frozenset({"logprobs"})
BARE = frozenset({"logprobs", "logit_bias", "tokenize"})
ONE_TOKEN = frozenset({"prompt_logprobs"})


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    return load_language()


def verify(
    language: LanguageModel, lacks: frozenset[str], *faults: str, noise: float = 0.02
) -> VerdictDocument:
    client = EngineClient(language, TREE, faults, noise_sd=noise, seed=1, lacks=lacks)
    options = VerifyOptions(budget="quick", seed=1, fail_fast=bool(faults))
    *_, last = run_battery(client, options)
    assert isinstance(last, VerdictReady)
    return last.document


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("lacks", [DRAWS, BARE, ONE_TOKEN])
def test_a_clean_engine_is_not_accused_at_any_level(
    language: LanguageModel, lacks: frozenset[str], noise: float
) -> None:
    document = verify(language, lacks, noise=noise)

    assert document.verdict != "violated", document.findings
    assert not document.integrity
    assert document.stats["generated_tokens"] <= 24_000


@pytest.mark.parametrize(
    ("fault", "claim"),
    [
        ("kv-commit-off-by-one", "greedy, concurrency 1"),
        ("corrupt-at-concurrency", "greedy, concurrency 16"),
        ("top-k-ignored", "top_k=1 (sampling kernel)"),
        ("greedy-verify", "sampled T=1"),
        ("residual-unnormalised", "sampled T=1"),
        ("threshold-single", "sampled T=1"),
        ("temperature-ignored", "sampled T=2.5 top_k=8"),
        ("eos-late", "stop tokens"),
        ("max-new-tokens-overrun", "length limits"),
    ],
)
def test_draws_alone_find_the_fault_and_the_claim_that_has_it(
    language: LanguageModel, fault: str, claim: str
) -> None:
    document = verify(language, BARE, fault)

    convicted = [c.name for c in document.claims if c.verdict == "violated"]
    assert document.verdict == "violated", document.findings
    assert convicted[0] == claim
    assert document.evidence == "draws"


def test_a_text_that_loses_characters_is_found_by_the_pieces_of_one_token_answers(
    language: LanguageModel,
) -> None:
    document = verify(language, BARE, "text-loses-characters")

    assert [i.name for i in document.integrity] == ["text"]
    assert document.exit_status == 1


@pytest.mark.parametrize("fault", ["wrong-row-accept", "greedy-verify", "top-p-ignored"])
def test_one_token_scores_find_what_full_scores_find(language: LanguageModel, fault: str) -> None:
    document = verify(language, ONE_TOKEN, fault)

    assert document.verdict == "violated", document.findings
    assert document.evidence == "one_token_scores"
