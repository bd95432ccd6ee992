"""What the decoder promises whatever drafts: the same tokens, honest counters, honest logprobs."""

from dataclasses import replace

import numpy as np
import pytest

from specbench.engine.decoder import Decoder
from specbench.engine.lm import LanguageModel
from specbench.engine.noise import NoiseConfig
from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import Finish, KvCache, LogprobWish, Sequence
from specbench.engine.speculation import SpeculationConfig
from tests.engine.runs import drive, outputs, requests

pytestmark = pytest.mark.slow

GREEDY = SamplingParams(temperature=0.0, max_new_tokens=48)
SPECULATIVE = {
    "dflash": SpeculationConfig.dflash(8),
    "ddtree": SpeculationConfig.ddtree(16, 4),
    "ddtree-wide": SpeculationConfig.ddtree(40, 8),
    "eagle": SpeculationConfig.eagle(5, 4, 12),
    "eagle-chain": SpeculationConfig.eagle(3, 1, 4),
    "standalone": SpeculationConfig.standalone(3, 1, 4),
    "ngram": SpeculationConfig.ngram(12, 10),
    "rejection": replace(SpeculationConfig.eagle(5, 1, 6), use_rejection_sampling=True),
    "block": replace(SpeculationConfig.eagle(5, 1, 6), use_block_verification=True),
    "dummy-draft": SpeculationConfig.ddtree(16, 4, quality=0.0),
}
speculative = pytest.mark.parametrize("name", SPECULATIVE)


@pytest.fixture(scope="module")
def plain(language: LanguageModel) -> list[list[int]]:
    return outputs(language, SpeculationConfig.ar())


@speculative
def test_greedy_outputs_equal_plain_decoding_token_for_token(
    language: LanguageModel, plain: list[list[int]], name: str
) -> None:
    drafted = outputs(language, SPECULATIVE[name])

    assert drafted == plain


@pytest.mark.parametrize("concurrency", [1, 3, 20])
def test_greedy_outputs_do_not_depend_on_the_batch(
    language: LanguageModel, plain: list[list[int]], concurrency: int
) -> None:
    spec = SpeculationConfig.ddtree(16, 4)

    assert outputs(language, spec, concurrency=concurrency) == plain


def test_a_ddtree_of_one_candidate_is_the_dflash_chain_step_for_step(
    language: LanguageModel,
) -> None:
    counted = []
    for spec in (SpeculationConfig.dflash(block_size=8), SpeculationConfig.ddtree(7, topk=1)):
        sequences = requests(language, 10, GREEDY)
        drive(Decoder(language, spec), sequences)
        counted.append([(s.output_ids, s.histogram, s.proposed) for s in sequences])

    assert counted[0] == counted[1]


@speculative
def test_counters_obey_the_identities_of_the_server(language: LanguageModel, name: str) -> None:
    spec = SPECULATIVE[name]
    sequences = requests(language, 10, GREEDY)

    drive(Decoder(language, spec), sequences)

    for s in sequences:
        emitted = sum((k + 1) * times for k, times in enumerate(s.histogram))
        assert sum(s.histogram) == s.verify_ct
        assert sum(k * times for k, times in enumerate(s.histogram)) == s.accepted
        assert s.proposed == s.verify_ct * (spec.num_draft_tokens - 1)
        assert 1 + s.verify_ct <= len(s.output_ids) <= 1 + emitted


def test_plain_decoding_counts_no_verification(language: LanguageModel) -> None:
    sequences = requests(language, 4, GREEDY)

    drive(Decoder(language, SpeculationConfig.ar()), sequences)

    assert all(s.verify_ct == s.proposed == 0 and s.histogram == [] for s in sequences)


def test_trees_accept_more_than_chains_and_a_random_draft_almost_nothing(
    language: LanguageModel,
) -> None:
    accepted = {}
    for name in ("dflash", "ddtree", "dummy-draft"):
        sequences = requests(language, 20, GREEDY)
        drive(Decoder(language, SPECULATIVE[name]), sequences)
        accepted[name] = 1 + sum(s.accepted for s in sequences) / sum(
            s.verify_ct for s in sequences
        )

    assert accepted["dummy-draft"] < 1.1
    assert 3.0 < accepted["dflash"] < accepted["ddtree"]


@speculative
def test_the_cache_holds_every_token_but_the_last(language: LanguageModel, name: str) -> None:
    sequences = requests(language, 6, GREEDY)
    decoder = Decoder(language, SPECULATIVE[name])

    decoder.prefill(sequences)
    for _ in range(4):
        running = [s for s in sequences if s.finish is None]
        decoder.step(running)

    for s in (s for s in sequences if s.finish is None):
        assert s.kv.tokens.tolist() == s.ids[:-1]
        assert s.kv.positions.tolist() == list(range(len(s.ids) - 1))


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("name", ["ddtree", "ar", "rejection"])
def test_output_logprobs_are_those_of_teacher_forcing(
    language: LanguageModel, name: str, temperature: float
) -> None:
    spec = SPECULATIVE.get(name, SpeculationConfig.ar())
    params = SamplingParams(temperature=temperature, max_new_tokens=24)
    sequences = requests(language, 4, params, LogprobWish(top_n=3, token_ids=(5, 300)))
    decoder = Decoder(language, spec, seed=3)

    drive(decoder, sequences)

    for s in sequences:
        assert [entry.token for entry in s.output_logprobs] == s.output_ids
        forced = decoder.score(s.ids, len(s.prompt_ids), top_n=language.vocab_size)
        for said, true in zip(s.output_logprobs, forced, strict=True):
            exact = np.zeros(language.vocab_size)
            for logprob, token in true.top:
                exact[token] = logprob / params.logprob_temperature
            exact -= np.log(np.exp(exact).sum())
            assert said.logprob == pytest.approx(exact[said.token], abs=1e-5)
            assert [token for _, token in said.top] == [token for _, token in true.top[:3]]
            assert [lp for lp, _ in said.chosen] == pytest.approx(exact[[5, 300]], abs=1e-5)


@pytest.mark.parametrize("name", ["ar", "ddtree"])
def test_a_retracted_sequence_goes_on_as_if_nothing_had_happened(
    language: LanguageModel, name: str
) -> None:
    spec = SPECULATIVE.get(name, SpeculationConfig.ar())
    undisturbed, retracted = requests(language, 2, GREEDY)[:1], requests(language, 2, GREEDY)[:1]
    drive(Decoder(language, spec), undisturbed)
    decoder = Decoder(language, spec)

    decoder.prefill(retracted)
    decoder.step(retracted)
    retracted[0].kv = KvCache()
    decoder.prefill(retracted)
    while retracted[0].finish is None:
        decoder.step(retracted)

    assert retracted[0].output_ids == undisturbed[0].output_ids


def test_a_cached_prefix_is_counted_and_changes_nothing(language: LanguageModel) -> None:
    decoder = Decoder(language, SPECULATIVE["ddtree"])
    first, second = requests(language, 1, GREEDY) + requests(language, 1, GREEDY)
    drive(decoder, [first])

    second.kv = first.kv
    drive(decoder, [second])

    assert second.cached_tokens == len(second.prompt_ids) - 1
    assert second.output_ids == first.output_ids


@pytest.mark.parametrize("name", ["ar", "dflash", "ddtree", "rejection"])
def test_requests_end_where_they_should(language: LanguageModel, name: str) -> None:
    spec = SPECULATIVE.get(name, SpeculationConfig.ar())
    eos = language.tokenizer.eos_id
    sequences = requests(language, 10, replace(GREEDY, max_new_tokens=200))

    drive(Decoder(language, spec), sequences)

    stopped = [s for s in sequences if s.finish == Finish("stop", eos)]
    assert stopped
    for s in stopped:
        assert s.output_ids.index(eos) == len(s.output_ids) - 1
    for s in sequences:
        if s not in stopped:
            assert s.finish == Finish("length", 200)
            assert len(s.output_ids) == 200


@pytest.mark.parametrize("name", ["ar", "ddtree"])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_max_new_tokens_is_exact(language: LanguageModel, name: str, length: int) -> None:
    spec = SPECULATIVE.get(name, SpeculationConfig.ar())
    sequences = requests(language, 4, SamplingParams(temperature=0.0, max_new_tokens=length))

    drive(Decoder(language, spec), sequences)

    assert all(len(s.output_ids) <= length for s in sequences)
    assert any(s.finish == Finish("length", length) for s in sequences)


@pytest.mark.parametrize("name", ["ar", "ddtree", "rejection"])
def test_min_new_tokens_forbids_the_end(language: LanguageModel, name: str) -> None:
    spec = SPECULATIVE.get(name, SpeculationConfig.ar())
    params = SamplingParams(temperature=0.8, max_new_tokens=40, min_new_tokens=30)
    sequences = requests(language, 10, params)

    drive(Decoder(language, spec, seed=1), sequences)

    assert all(len(s.output_ids) >= 30 for s in sequences)


@pytest.mark.parametrize("name", ["ar", "ddtree", "dflash"])
def test_stop_token_ids_end_a_request_and_ignore_eos_keeps_it_going(
    language: LanguageModel, name: str
) -> None:
    spec = SPECULATIVE.get(name, SpeculationConfig.ar())
    plain = requests(language, 1, GREEDY)
    drive(Decoder(language, SpeculationConfig.ar()), plain)
    stop = plain[0].output_ids[20]
    params = replace(GREEDY, ignore_eos=True, stop_token_ids=(stop,))

    stopped = requests(language, 1, params)
    drive(Decoder(language, spec), stopped)

    assert stopped[0].finish == Finish("stop", stop)
    assert stopped[0].output_ids == plain[0].output_ids[: plain[0].output_ids.index(stop) + 1]


@pytest.mark.parametrize("name", ["dflash", "ddtree"])
def test_penalties_and_bias_act_inside_a_block_as_in_plain_decoding(
    language: LanguageModel, name: str
) -> None:
    params = replace(
        GREEDY,
        frequency_penalty=0.6,
        presence_penalty=0.4,
        repetition_penalty=1.2,
        logit_bias={300: 2.5, 10: -4.0},
    )

    drafted = outputs(language, SPECULATIVE[name], params=params, count=8)

    assert drafted == outputs(language, SpeculationConfig.ar(), params=params, count=8)


def test_a_large_bias_decides_the_first_token_too(language: LanguageModel) -> None:
    sequences = requests(language, 3, replace(GREEDY, max_new_tokens=1, logit_bias={77: 100.0}))

    Decoder(language, SPECULATIVE["ddtree"]).prefill(sequences)

    assert [s.output_ids for s in sequences] == [[77]] * 3


@pytest.mark.parametrize("name", ["ar", "ddtree", "dflash"])
def test_seeds_decide_under_deterministic_inference_whatever_the_batch(
    language: LanguageModel, name: str
) -> None:
    spec = SPECULATIVE.get(name, SpeculationConfig.ar())
    params = SamplingParams(temperature=1.0, max_new_tokens=24, sampling_seed=11)
    runs = []
    for concurrency in (1, 5):
        sequences = requests(language, 5, params)
        drive(Decoder(language, spec, seed=concurrency, deterministic=True), sequences, concurrency)
        runs.append([s.output_ids for s in sequences])

    assert runs[0] == runs[1]


def test_noise_flips_near_ties_between_kernels_and_batch_sizes_but_is_reproducible(
    language: LanguageModel,
) -> None:
    noise = NoiseConfig(sd=0.05, seed=1)
    spec = SPECULATIVE["ddtree"]

    once, again = (outputs(language, spec, noise=noise) for _ in range(2))

    assert once == again
    assert once != outputs(language, spec)
    assert once != outputs(language, spec, noise=noise, concurrency=3)
    assert once != outputs(language, spec, noise=replace(noise, seed=2))
    assert once != outputs(language, SpeculationConfig.ar(), noise=noise)


def test_the_ngram_drafter_learns_across_requests_until_it_is_flushed(
    language: LanguageModel,
) -> None:
    decoder = Decoder(language, SPECULATIVE["ngram"])
    lengths = []
    for flush in (False, False, True):
        if flush:
            decoder.flush()
        sequences = requests(language, 10, GREEDY)
        drive(decoder, sequences)
        lengths.append(sum(s.accepted for s in sequences) / sum(s.verify_ct for s in sequences))

    assert lengths[1] > 2 * lengths[0]
    assert lengths[2] == pytest.approx(lengths[0])


def test_scores_cover_exactly_the_tokens_asked_for(language: LanguageModel) -> None:
    decoder = Decoder(language)
    ids = language.tokenizer.encode("The climate changes slowly. " * 40)

    whole = decoder.score(ids, 0)
    part = decoder.score(ids, 150, top_n=2)

    assert [entry.token for entry in whole] == ids[1:]
    assert [entry.logprob for entry in part] == [entry.logprob for entry in whole[149:]]
    assert decoder.score(ids[:1], 0) == []


def test_lowered_thresholds_raise_acceptance_on_the_running_decoder(
    language: LanguageModel,
) -> None:
    decoder = Decoder(language, SPECULATIVE["dflash"])
    params = SamplingParams(temperature=1.0, max_new_tokens=48)
    before, after = requests(language, 20, params), requests(language, 20, params)

    drive(decoder, before)
    decoder.set_thresholds(single=0.1, acc=0.5)
    drive(decoder, after)

    assert rate(after) > 1.3 * rate(before)


def rate(sequences: list[Sequence]) -> float:
    return sum(s.accepted for s in sequences) / sum(s.verify_ct for s in sequences)
