"""Every fault breaks what its area claims, and nothing else does: the list is complete and live."""

import numpy as np
import pytest

from specbench.engine.decoder import Decoder
from specbench.engine.faults import FAULTS, break_seams, list_faults
from specbench.engine.lm import LanguageModel
from specbench.engine.sampling import SamplingParams
from specbench.engine.seams import Seams
from specbench.engine.sequence import LogprobWish
from specbench.engine.speculation import SpeculationConfig
from specbench.engine.verify import rejection_walk
from tests.engine.laws import largest_error
from tests.engine.runs import drive, outputs, requests
from tests.engine.scenario import emitted_law, expected_rows

pytestmark = pytest.mark.slow

EXACT = 1e-7  # the target's logits are float32
VISIBLE = 0.01
TREE = SpeculationConfig.ddtree(16, 4)
ENDING = SamplingParams(temperature=0.0, max_new_tokens=45)

# What the issue that asked for the engine names; a fault that disappears is noticed here.
NAMED = {
    "sibling-visible-mask", "wrong-row-accept", "unchecked-accept", "bonus-from-draft",
    "bonus-from-root-row", "kv-commit-off-by-one", "kv-path-not-compacted", "positions-by-index",
    "residual-unnormalised", "residual-keeps-rejected", "kv-rejected-slot-kept",
    "coin-reused-across-siblings", "coin-reused-across-requests", "coin-reused-across-depths",
    "temperature-ignored", "temperature-twice", "top-p-ignored", "top-k-ignored", "greedy-verify",
    "threshold-single", "threshold-acc", "penalties-ignored", "logit-bias-ignored",
    "eos-swallowed", "eos-late", "max-new-tokens-overrun", "corrupt-at-concurrency",
    "corrupt-after-deep-acceptance", "corrupt-beyond-length", "kv-cached-prefix-corrupt",
    "corrupt-after-requests", "logprobs-lie", "counters-lie", "text-loses-characters",
    "duplicate-siblings", "quirk-min-p", "quirk-top-k-then-top-p", "quirk-stale-penalties",
}  # fmt: skip


def in_area(*areas: str) -> list[str]:
    return [fault.name for fault in list_faults() if fault.area in areas]


def test_every_fault_asked_for_is_there_with_a_sentence() -> None:
    assert set(FAULTS) >= NAMED
    assert all(fault.sentence.endswith(".") for fault in list_faults())


def test_an_unknown_fault_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'eos-late'"):
        break_seams(Seams(), ["eos-latte"])


def test_without_faults_a_demanding_request_gets_exactly_its_distribution() -> None:
    tree, law = emitted_law(Seams())

    assert largest_error(law, tree, expected_rows()) <= EXACT


SHARED_COIN = "coin-reused-across-requests"


@pytest.mark.parametrize(
    "name", [name for name in in_area("sampling", "parameters", "quirk") if name != SHARED_COIN]
)
def test_each_sampling_fault_breaks_the_law(name: str) -> None:
    tree, law = emitted_law(break_seams(Seams(), [name]))

    assert largest_error(law, tree, expected_rows()) > VISIBLE


def test_a_shared_coin_keeps_each_law_and_breaks_independence() -> None:
    seams = break_seams(Seams(), [SHARED_COIN])

    nodes, final = seams.coins(np.arange(6.0).reshape(2, 3), np.array([6.0, 7.0]))

    tree, law = emitted_law(seams)
    assert largest_error(law, tree, expected_rows()) <= EXACT
    assert nodes[0].tolist() == nodes[1].tolist()
    assert final[0] == final[1]


def test_equal_requests_side_by_side_agree_only_when_coins_are_shared(
    language: LanguageModel,
) -> None:
    params = SamplingParams(temperature=1.0, max_new_tokens=24)
    distinct = {}
    for faults in ((), (SHARED_COIN,)):
        equal = [requests(language, 1, params)[0] for _ in range(8)]
        decoder = Decoder(language, TREE, faults=faults, seed=4)
        decoder.prefill(equal)
        for sequence in equal:
            sequence.output_ids[:] = equal[0].output_ids
        while running := [s for s in equal if s.finish is None]:
            decoder.step(running)
        distinct[faults] = len({tuple(s.output_ids) for s in equal})

    assert distinct[(SHARED_COIN,)] == 1
    assert distinct[()] > 4


@pytest.fixture(scope="module")
def plain(language: LanguageModel) -> list[list[int]]:
    return outputs(language, SpeculationConfig.ar(), params=ENDING, count=20)


@pytest.mark.parametrize("name", in_area("state", "ending"))
def test_each_state_fault_changes_greedy_outputs(
    language: LanguageModel, plain: list[list[int]], name: str
) -> None:
    broken = outputs(language, TREE, params=ENDING, count=20, faults=[name])

    assert broken != plain


@pytest.mark.parametrize("name", in_area("sampling", "parameters", "reporting", "quirk"))
def test_other_faults_leave_greedy_outputs_alone(language: LanguageModel, name: str) -> None:
    broken = outputs(language, TREE, params=ENDING, count=4, faults=[name])

    assert broken == outputs(language, TREE, params=ENDING, count=4)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in in_area("state", "sampling", "parameters", "ending", "quirk")
        if name != "kv-cached-prefix-corrupt"  # of the prefix cache, which plain decoding has too
    ],
)
def test_plain_decoding_meets_no_fault_of_speculation(language: LanguageModel, name: str) -> None:
    clean = outputs(language, SpeculationConfig.ar(), params=ENDING, count=2)

    assert outputs(language, SpeculationConfig.ar(), params=ENDING, count=2, faults=[name]) == clean


def test_a_corrupt_prefix_harms_only_requests_that_reuse_one(
    language: LanguageModel, plain: list[list[int]]
) -> None:
    broken = outputs(language, TREE, params=ENDING, count=20, faults=["kv-cached-prefix-corrupt"])

    assert broken[:20] == plain[:20]
    assert broken[20:] != plain[20:]


def test_corruption_under_concurrency_is_invisible_alone(
    language: LanguageModel, plain: list[list[int]]
) -> None:
    alone = outputs(
        language, TREE, params=ENDING, count=20, faults=["corrupt-at-concurrency"], concurrency=1
    )

    assert alone == plain


def test_lying_logprobs_are_not_those_of_teacher_forcing(language: LanguageModel) -> None:
    sequence = requests(language, 1, ENDING, LogprobWish())[0]
    decoder = Decoder(language, TREE, faults=["logprobs-lie"])

    drive(decoder, [sequence])

    true = [entry.logprob for entry in decoder.score(sequence.ids, len(sequence.prompt_ids))]
    said = [entry.logprob for entry in sequence.output_logprobs]
    assert max(abs(a - b) for a, b in zip(said, true, strict=True)) > 0.1


def test_lying_counters_break_the_identity_of_the_histogram(language: LanguageModel) -> None:
    sequence = requests(language, 1, ENDING)[0]

    drive(Decoder(language, TREE, faults=["counters-lie"]), [sequence])

    assert sum(k * n for k, n in enumerate(sequence.histogram)) != sequence.accepted


def test_lost_characters_are_missing_from_the_text(language: LanguageModel) -> None:
    decoder = Decoder(language, TREE, faults=["text-loses-characters"])
    ids = language.tokenizer.encode("12345")

    assert decoder.text(ids) == "1234"


@pytest.mark.parametrize("name", ["residual-keeps-rejected"])
def test_the_residual_fault_reaches_sampled_chains(name: str) -> None:
    assert break_seams(Seams(), [name]).rejection is not rejection_walk


def test_faults_combine() -> None:
    seams = break_seams(Seams(), ["temperature-twice", "top-k-ignored", "eos-late"])

    judged = seams.judge_by(SamplingParams(temperature=0.5, top_k=3))

    assert (judged.temperature, judged.top_k) == (0.25, -1)
