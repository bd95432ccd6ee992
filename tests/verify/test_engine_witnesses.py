"""A witness's own command must bring the wrong token again, on the engine that has the fault."""

import json
import shlex
from typing import Any

import pytest

from benchmarks.engine_client import EngineClient
from specbench.engine.lm import LanguageModel, load_language
from specbench.engine.speculation import SpeculationConfig
from specbench.model.verdict import Witness
from specbench.verify.battery import run_battery
from specbench.verify.events import VerdictReady
from specbench.verify.options import VerifyOptions
from specbench.verify.wire import Ask

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    return load_language()


def sent_by(command: str) -> tuple[dict[str, Any], int]:
    """Return the body that a witness's command sends, and how often side by side."""
    words = shlex.split(command)
    if words[0] == "seq":
        return sent_by(words[-1])[0], int(words[1])
    return json.loads(words[-1]), 1


def again(client: EngineClient, witness: Witness) -> list[int]:
    body, abreast = sent_by(witness.shows)
    sampling = body["sampling_params"]
    bias = tuple((int(k), float(v)) for k, v in (sampling.get("logit_bias") or {}).items())
    ask = Ask(
        ids=tuple(body["input_ids"]),
        max_tokens=sampling["max_new_tokens"],
        temperature=sampling["temperature"],
        ignore_eos=True,
        logit_bias=bias,
    )
    client.flush()
    answers = client.generate_all([ask] * abreast, abreast)
    return [parts[0].ids[witness.position] for parts in answers]


@pytest.mark.parametrize(
    "fault",
    [
        "wrong-row-accept",
        "bonus-from-draft",
        "kv-commit-off-by-one",
        "corrupt-at-concurrency",
        "corrupt-beyond-length",
        "sibling-visible-mask",
    ],
)
@pytest.mark.parametrize("lacks", [frozenset(), frozenset({"logprobs"})], ids=["scores", "draws"])
def test_the_command_of_a_witness_brings_the_wrong_token_again(
    language: LanguageModel, fault: str, lacks: frozenset[str]
) -> None:
    spec = SpeculationConfig.ddtree(budget=16, topk=4)
    client = EngineClient(language, spec, (fault,), noise_sd=0.02, seed=1, lacks=lacks)
    *_, last = run_battery(client, VerifyOptions(budget="quick", seed=1, fail_fast=True))

    assert isinstance(last, VerdictReady)
    witnesses = last.document.witnesses
    assert witnesses
    for witness in witnesses:
        assert witness.token in again(client, witness)
        assert witness.token != witness.target_argmax
