"""A trace tells what happens without changing it."""

import re

import pytest

from specbench.engine.decoder import Decoder
from specbench.engine.lm import load_language
from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import Sequence
from specbench.engine.speculation import SpeculationConfig
from specbench.engine.trace import trace_request


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_traced_request_is_the_untraced_one(temperature: float) -> None:
    language = load_language()
    params = SamplingParams(max_new_tokens=30, temperature=temperature, ignore_eos=True)
    spec = SpeculationConfig.ddtree(budget=6, topk=3)
    sequence = Sequence("x", language.tokenizer.encode("The sea is"), params)
    decoder = Decoder(language, spec, seed=7)
    decoder.prefill([sequence])
    while sequence.finish is None:
        decoder.step([sequence])

    lines = list(trace_request(Decoder(language, spec, seed=7), "The sea is", params))

    told = "\n".join(lines)
    accepted = [int(n) for n in re.findall(r"^accepted +(\d+):", told, re.MULTILINE)]
    assert f"text        {decoder.text(sequence.output_ids)!r}" in lines
    assert len(accepted) == sequence.verify_ct
    assert sum(accepted) == sequence.accepted
    assert told.count("accepted\n") == sequence.accepted


def test_plain_decoding_has_no_trees() -> None:
    decoder = Decoder(load_language(), SpeculationConfig.ar())

    lines = list(trace_request(decoder, "The sea", SamplingParams(max_new_tokens=3)))

    assert sum(line.startswith("round") for line in lines) == 2
    assert not any("node" in line for line in lines)
