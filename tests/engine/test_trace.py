"""A trace shows what happened, and changes nothing."""

import pytest

from specbench.engine.decoder import Decoder
from specbench.engine.lm import LanguageModel
from specbench.engine.sampling import SamplingParams
from specbench.engine.speculation import SpeculationConfig
from specbench.engine.trace import trace_request
from tests.engine.runs import drive, requests

TREE = SpeculationConfig.ddtree(12, 3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_trace_is_the_run(language: LanguageModel, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, max_new_tokens=40)
    traced, driven = requests(language, 1, params)[0], requests(language, 1, params)[0]
    drive(Decoder(language, TREE, seed=6), [driven])

    rounds = list(trace_request(Decoder(language, TREE, seed=6), traced))

    assert traced.output_ids == driven.output_ids
    assert [len(r.path) for r in rounds].count(0) == (driven.histogram or [0])[0]
    first = language.tokenizer.decode(traced.output_ids[:1], skip_special=False)
    text = language.tokenizer.decode(traced.output_ids, skip_special=False)
    assert text.startswith(first + rounds[0].emitted)
    for shown in rounds:
        assert len(shown.nodes) == 13
        assert {node.node for node in shown.nodes if node.accepted} == {0, *shown.path}
        assert (shown.final_coin is None) == (temperature == 0.0)
        assert any(repr(shown.bonus) in line for line in shown.lines())


def test_plain_decoding_has_no_rounds(language: LanguageModel) -> None:
    sequence = requests(language, 1, SamplingParams(max_new_tokens=5))[0]

    assert list(trace_request(Decoder(language), sequence)) == []
    assert sequence.finish is not None
