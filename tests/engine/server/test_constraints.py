"""Arguments resolve, warn and are refused as SGLang 0.5.23 does it."""

from typing import Any

import pytest

from specbench.engine.server.args import launch_command, read
from specbench.engine.server.constraints import effective_running_requests, resolve
from specbench.engine.server.flags import INERT, SGLANG_FLAGS, inert_flags, parser

DFLASH = "--speculative-algorithm DFLASH"
EAGLE = "--speculative-algorithm EAGLE --speculative-num-steps 3"


def resolved(*flags: str) -> tuple[dict[str, Any], list[str]]:
    return resolve(vars(parser().parse_args(["--model-path", "some/model", *flags])))


def widths(args: dict[str, Any]) -> tuple[Any, Any, Any]:
    keys = ("num_steps", "eagle_topk", "num_draft_tokens")
    return tuple(args[f"speculative_{key}"] for key in keys)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--speculative-algorithm EAGLE", (3, 1, 4)),
        ("--speculative-algorithm NEXTN", (3, 1, 4)),
        ("--speculative-algorithm eagle3 --model-path x/Llama-3", (5, 4, 8)),
        ("--speculative-algorithm STANDALONE --model-path x/Llama-3", (3, 1, 4)),
        ("--speculative-algorithm EAGLE --speculative-num-steps 4", (4, 1, 5)),
        ("--speculative-algorithm NGRAM", (1, 10, 12)),
        ("--speculative-algorithm NGRAM --speculative-num-draft-tokens 8", (0, 10, 8)),
        ("--speculative-algorithm DFLASH", (1, 1, 16)),
        ("--speculative-algorithm DFLASH --speculative-dflash-block-size 8", (1, 1, 8)),
        ("--speculative-algorithm DDTREE --speculative-ddtree-budget 32", (1, 4, 33)),
        ("--speculative-algorithm DDTREE --speculative-eagle-topk 1", (1, 1, 16)),
        ("--speculative-algorithm DDTREE --speculative-dflash-block-size 8", (1, 4, 8)),
    ],
)
def test_each_algorithm_resolves_its_widths(flags: str, expected: tuple[int, int, int]) -> None:
    args, _ = resolved(*flags.split())

    assert widths(args) == expected
    assert args["max_running_requests"] == 48


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--speculative-algorithm TREE", "Unknown speculative algorithm name: TREE"),
        (
            "--speculative-algorithm DFLASH --pp-size 2",
            "Currently DFLASH speculative decoding only supports pp_size == 1.",
        ),
        ("--speculative-algorithm NGRAM --pp-size 2", "Pipeline parallelism"),
        ("--speculative-algorithm EAGLE --speculative-eagle-topk 4", "must be unset"),
        (
            f"{DFLASH} --speculative-num-draft-tokens 8 --speculative-dflash-block-size 16",
            "differ: 8 and 16",
        ),
        ("--speculative-algorithm DFLASH --device cpu", "not supported on 'cpu'"),
        ("--speculative-algorithm DDTREE --page-size 16", "requires page_size == 1"),
        ("--speculative-algorithm DDTREE --speculative-ddtree-budget 0", "at least 1"),
        (
            f"{EAGLE} --speculative-eagle-topk 2 --speculative-use-rejection-sampling",
            "needs speculative_eagle_topk == 1",
        ),
        ("--served-model-name a:b", "colon"),
        ("--mem-fraction-static 1.5", "between 0 and 1"),
        ("--speculative-algorithm EAGLE --speculative-accept-threshold-acc 2", r"\[0, 1\]"),
        ("--tp-size 0", "at least 1"),
        ("--tp-size 4 --ep-size 3", "divisible"),
    ],
)
def test_what_cannot_run_is_refused(flags: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolved(*flags.split())


def test_forced_values_are_said() -> None:
    _, dflash = resolved(
        "--speculative-algorithm", "DFLASH", "--speculative-num-steps", "5",
        "--speculative-eagle-topk", "4",
    )  # fmt: skip
    _, eagle = resolved(
        "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
        "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "16",
    )  # fmt: skip
    _, ddtree = resolved("--speculative-algorithm", "DDTREE", "--max-running-requests", "8")

    cap = "Max running requests is reset to 48 for speculative decoding."
    assert dflash == [
        "speculative_num_steps is forced to 1 for DFLASH.",
        "speculative_eagle_topk is forced to 1 for DFLASH.",
        cap,
    ]
    assert eagle[0].startswith("speculative_num_draft_tokens is adjusted to speculative_num_steps")
    assert ddtree == ["Overlap schedule is disabled for DDTREE."]


def test_attention_data_parallelism_is_rewritten() -> None:
    args, _ = resolved("--tp-size", "8", "--dp-size", "4", "--enable-dp-attention")

    assert (args["attn_dp_size"], args["dp_size"]) == (4, 1)


def test_the_running_cap_is_per_data_parallel_rank() -> None:
    args, _ = resolved("--dp-size", "2", "--max-running-requests", "64")

    assert effective_running_requests(args) == 32


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--model-path x --bogus 1", "unrecognized arguments: --bogus 1"),
        ("--model-path x --pp 2", "ambiguous option: --pp could match"),
        ("--model-path x --cuda-graph-bs 2", "ambiguous option: --cuda-graph-bs could match"),
        ("--port 1", "arguments are required: --model-path"),
        ("--model-path x --fault nonsense", "unknown fault 'nonsense'"),
        ("--model-path x --fail-load nowhere", "unknown phase 'nowhere'"),
        ("--model-path x --gpu abacus", "unknown GPU 'abacus'"),
        ("--model-path x --time-scale -1", "must not be negative"),
        ("--model-path x --port 70000", "--port must be in"),
        ("--model-path x --port many", "invalid int value: 'many'"),
    ],
)
def test_bad_flags_end_with_status_2(
    flags: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(flags.split())

    assert ended.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_refused_combination_ends_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(["--model-path", "x", "--speculative-algorithm", "NOPE"])

    assert ended.value.code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "ValueError: Unknown speculative algorithm name: NOPE"


@pytest.mark.parametrize("flags", ["--fault list", "--fail-load list", "--hang-load list"])
def test_lists_end_with_status_0(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(flags.split())

    assert ended.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) >= 7


def test_prefixes_are_understood_as_argparse_does() -> None:
    args, _ = resolved("--tp", "4", "--dp", "2", "--ep", "2", "--mem-fraction", ".8")

    assert (args["tp_size"], args["dp_size"], args["ep_size"]) == (4, 2, 2)


def test_secrets_do_not_reach_the_launch_command() -> None:
    shown = launch_command(["--api-key", "s3cret", "--admin-api-key=adm1n", "--port", "1"])

    assert shown == "--api-key '<redacted>' '--admin-api-key=<redacted>' --port 1"


def test_flags_without_effect_are_known_and_said() -> None:
    given = vars(parser().parse_args(["--model-path", "x", "--schedule-policy", "lpm"]))

    assert inert_flags(given) == ["--schedule-policy"]
    assert {flag.field for flag in SGLANG_FLAGS} >= INERT
