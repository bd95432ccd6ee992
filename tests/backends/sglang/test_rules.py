"""What SGLang cannot run is told in one sentence; what it can run is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.sglang.rules import invalid_reason
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec


def reason(flags: dict[str, Level], version: str | None = None, **env: str) -> str | None:
    spec = LaunchSpec(
        fingerprint="f",
        algorithm="a",
        speculative="speculative-algorithm" in flags,
        model_path="m",
        served_name="s",
        flags=tuple(flags.items()),
        env=tuple(env.items()),
    )
    return invalid_reason(spec, version)


def speculative(name: str, **flags: Level) -> dict[str, Level]:
    named = {f"speculative-{flag.replace('_', '-')}": value for flag, value in flags.items()}
    return {"speculative-algorithm": name, **named}


EAGLE = speculative("EAGLE", num_steps=3, eagle_topk=4, num_draft_tokens=8)
CHAIN = speculative("EAGLE", num_steps=3, eagle_topk=1, num_draft_tokens=4)
PIPELINE = {**EAGLE, "pp-size": 2, "disable-overlap-schedule": True}


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"tp-size": 8, "ep-size": 8, "pp-size": 2},
        EAGLE,
        CHAIN,
        speculative("eagle"),
        speculative("EAGLE", num_steps=5, eagle_topk=8, num_draft_tokens=64),
        speculative("EAGLE3", num_steps=3, eagle_topk=1),
        speculative("NGRAM", num_draft_tokens=12),
        speculative("DFLASH", dflash_block_size=16),
        speculative("DFLASH", dflash_block_size=16, num_draft_tokens=16),
        speculative("DDTREE", ddtree_budget=32, eagle_topk=4),
        {**speculative("DDTREE", ddtree_budget=32), "pp-size": 1, "page-size": 1},
        {**EAGLE, "page-size": 64, "attention-backend": "fa3"},
        {**CHAIN, "attention-backend": "trtllm_mha"},
        {**CHAIN, "speculative-use-rejection-sampling": True},
        {"speculative-use-block-verification": True},
        {**speculative("DFLASH"), "attn-dp-size": 2, "tp-size": 2, "enable-dp-lm-head": True},
    ],
)
def test_what_runs_is_left_alone(flags: dict[str, Level]) -> None:
    assert reason(flags) is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({**speculative("DFLASH"), "pp-size": 2}, "DFLASH does not run with pipeline"),
        ({**speculative("NGRAM"), "pp-size": 4}, "NGRAM does not run with pipeline"),
        ({**speculative("DDTREE", ddtree_budget=3), "pp-size": 2}, "pipeline"),
        ({**EAGLE, "pp-size": 2}, "disable-overlap-schedule"),
        (PIPELINE, "SGLANG_ENABLE_PP_SPEC"),
        ({**PIPELINE, "enable-multi-layer-eagle": True}, "pipeline"),
        ({"tp-size": 4, "ep-size": 3}, "does not divide"),
        ({"tp-size": 2, "attn-dp-size": 4}, "does not divide"),
        ({"dp-size": 2, "nnodes": 2}, "several nodes"),
        (speculative("EAGLE", num_draft_tokens=8), "needs steps"),
        (speculative("STANDALONE", eagle_topk=4), "needs steps"),
        (speculative("EAGLE", num_steps=3, eagle_topk=1, num_draft_tokens=8), "ignore"),
        (speculative("EAGLE", num_steps=1, eagle_topk=4, num_draft_tokens=8), "no 7 nodes"),
        (speculative("EAGLE", num_steps=40, eagle_topk=8, num_draft_tokens=1025), "at most 1024"),
        ({**EAGLE, "page-size": 64, "attention-backend": "trtllm_mla"}, "page-size"),
        ({**EAGLE, "attention-backend": "trtllm_mha"}, "topk 1 only"),
        ({**speculative("NGRAM"), "page-size": 64, "attention-backend": "fa3"}, "flashinfer"),
        ({**speculative("DDTREE"), "page-size": 64}, "page-size 1"),
        (speculative("DFLASH", eagle_topk=4), "forces"),
        (speculative("DFLASH", num_steps=4), "forces"),
        (speculative("DFLASH", dflash_block_size=8, num_draft_tokens=16), "equal"),
        (speculative("DFLASH", dflash_block_size=16, draft_window_size=8), "window"),
        ({**speculative("DFLASH"), "attn-dp-size": 2, "tp-size": 2}, "enable-dp-lm-head"),
        ({**speculative("DFLASH"), "device": "cpu"}, "CPU"),
        ({**speculative("NGRAM"), "enable-dp-attention": True}, "attention data parallel"),
        ({**EAGLE, "speculative-use-rejection-sampling": True}, "rejection sampling"),
        (
            {
                **CHAIN,
                "speculative-use-rejection-sampling": True,
                "speculative-accept-threshold-acc": 0.9,
            },
            "thresholds",
        ),
        ({**EAGLE, "speculative-use-block-verification": True}, "block verification"),
        ({**EAGLE, "speculative-adaptive": True}, "adaptive"),
        ({**speculative("UNO"), "tp-size": 2}, "one GPU"),
        ({**speculative("UNO"), "enable-deterministic-inference": True}, "deterministic"),
    ],
)
def test_what_does_not_run_is_told(flags: dict[str, Level], words: str) -> None:
    assert words in str(reason(flags))


def test_pipeline_parallel_eagle_runs_behind_its_variable() -> None:
    assert reason(PIPELINE, SGLANG_ENABLE_PP_SPEC="1") is None
    assert "adaptive" in str(
        reason({**PIPELINE, "speculative-adaptive": True}, SGLANG_ENABLE_PP_SPEC="1")
    )


@pytest.mark.parametrize(
    ("flags", "version", "words"),
    [
        (speculative("DFLASH"), "0.5.8", "needs SGLang 0.5.12"),
        (speculative("DFLASH"), "0.5.12.post1", None),
        (speculative("NGRAM"), "0.5.2", "needs SGLang 0.5.5"),
        ({"cuda-graph-max-bs": 8}, "0.5.18", None),
        ({"cuda-graph-max-bs": 8}, "0.5.23", "no longer"),
        ({"attn-dp-size": 1}, "0.5.20", "does not exist"),
        ({"attn-dp-size": 1}, "0.5.23", None),
        (speculative("DFLASH"), "a fork of mine", None),
    ],
)
def test_versions(flags: dict[str, Level], version: str, words: str | None) -> None:
    found = reason(flags, version)

    assert found is None if words is None else words in str(found)


values = st.one_of(st.none(), st.booleans(), st.integers(-3, 2000), st.text(max_size=4))
names = st.sampled_from(
    [
        *("tp-size", "pp-size", "dp-size", "ep-size", "nnodes", "page-size", "device"),
        *("speculative-algorithm", "speculative-num-steps", "speculative-eagle-topk"),
        *("speculative-num-draft-tokens", "speculative-dflash-block-size", "attn-dp-size"),
        *("attention-backend", "speculative-adaptive", "speculative-draft-window-size"),
    ]
)


@given(st.dictionaries(names, values), st.one_of(st.none(), st.text(max_size=6)))
def test_any_flags_are_judged_without_a_traceback(
    flags: dict[str, Level], version: str | None
) -> None:
    found = reason(flags, version)

    assert found is None or found
