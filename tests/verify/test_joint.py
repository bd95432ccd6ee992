"""Parameters that act together: faults that every test of one parameter alone passes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.engine_client import EngineClient
from specbench.engine import sampling
from specbench.engine.lm import LanguageModel, load_language
from specbench.engine.sampling import Distribution, Row, SamplingParams
from specbench.engine.seams import Seams
from specbench.engine.speculation import SpeculationConfig
from specbench.verify.battery import open_session, run_battery
from specbench.verify.events import VerdictReady
from specbench.verify.handshake import shake_hands
from specbench.verify.joint import run_joint
from specbench.verify.options import BUDGETS, S1, BudgetName, VerifyOptions
from specbench.verify.statistics.evidence import Evidence

pytestmark = pytest.mark.slow
CONVICTS = 1e-4


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    return load_language()


def nucleus_before_temperature(seams: Seams) -> Seams:
    def shape(logits: Row, params: SamplingParams) -> Distribution:
        if params.greedy or params.top_p == 1.0:
            return sampling.target_distribution(logits, params)
        kept = sampling.target_distribution(logits, replace(params, temperature=1.0))
        sharpened: Distribution = kept ** (1 / params.temperature)
        return sharpened / sharpened.sum()

    return replace(seams, shape=shape)


def penalties_lost_above_zero(seams: Seams) -> Seams:
    def judge_by(params: SamplingParams) -> SamplingParams:
        return params if params.greedy else replace(params, frequency_penalty=0.0)

    return replace(seams, judge_by=judge_by)


def neighbours_parameters(seams: Seams) -> Seams:
    before = [SamplingParams()]

    def judge_by(params: SamplingParams) -> SamplingParams:
        used = before.pop()
        before.append(params)
        return params if used.frequency_penalty or params.frequency_penalty else used

    return replace(seams, judge_by=judge_by)


def temperature_lost_with_top_p(seams: Seams) -> Seams:
    def judge_by(params: SamplingParams) -> SamplingParams:
        return replace(params, temperature=1.0) if params.top_p < 1 else params

    return replace(seams, judge_by=judge_by)


def joint(
    language: LanguageModel,
    fault: Callable[[Seams], Seams] = lambda seams: seams,
    *,
    named: tuple[str, ...] = (),
    budget: BudgetName = "default",
    noise: float = 0.02,
    seed: int = 1,
) -> Evidence:
    spec = SpeculationConfig.ddtree(budget=16, topk=4)
    client = EngineClient(language, spec, named, noise_sd=noise, seed=seed)
    client.decoder.seams = fault(client.decoder.seams)
    options = VerifyOptions(budget=budget, seed=seed)
    found = run_joint(open_session(client, shake_hands(client), options))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("fault", "mix"),
    [
        (nucleus_before_temperature, "T=1.8 top_p=0.5"),
        (temperature_lost_with_top_p, "T=1.8 top_p=0.5"),
        (penalties_lost_above_zero, "T=0.7 frequency_penalty=2"),
        (neighbours_parameters, "T=2.5 top_k=8"),
    ],
)
def test_what_goes_wrong_only_when_parameters_meet_is_found(
    language: LanguageModel, fault: Callable[[Seams], Seams], mix: str
) -> None:
    found = joint(language, fault)

    convicted = {name for name, p in found.tests.items() if p < CONVICTS}
    assert any(name.startswith(mix) for name in convicted), found.tests
    assert found.gap == ""


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_clean_server_is_not_suspected_of_any_mix(language: LanguageModel, noise: float) -> None:
    found = joint(language, noise=noise, seed=2)

    assert min(found.tests.values()) > CONVICTS
    assert found.fails == ""
    assert found.n_tokens > 2000


def test_a_mix_of_parameters_convicts_by_name_and_with_its_own_suspect(
    language: LanguageModel,
) -> None:
    spec = SpeculationConfig.ddtree(budget=16, topk=4)
    client = EngineClient(language, spec, noise_sd=0.02, seed=1)
    client.decoder.seams = temperature_lost_with_top_p(client.decoder.seams)
    sizes = replace(BUDGETS["quick"], sampled=((S1, 1500),), limit=20_000, joint=16, filters=0)
    *_, last = run_battery(client, VerifyOptions(sizes=sizes, seed=1))

    assert isinstance(last, VerdictReady)
    claim = next(c for c in last.document.claims if c.name == "parameters together, side by side")
    assert claim.verdict == "violated", last.document.findings
    assert "under T=" in claim.finding or "excluded by T=" in claim.finding
    assert "parameters that act together" in last.document.suspects[0].text
