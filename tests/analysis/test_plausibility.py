"""Counts that cannot be true are not believed: each kind leaves its figures empty, and says why."""

import msgspec
import pytest

from specbench.analysis.plausibility import STEPS, TOKENS, untrue, wrong_count
from specbench.analysis.summary import raised_flags, summarise
from specbench.model.load import RequestRecord
from tests.recording.records import record, report


def reply(**changes: object) -> RequestRecord:
    """Give a reply of twenty chunks and twenty tokens, changed."""
    at = [number * 10_000_000 for number in range(1, 21)]
    whole = RequestRecord(
        rid="r",
        prompt_id="p",
        written_ns=0,
        first_token_ns=at[0],
        last_token_ns=at[-1],
        end_ns=at[-1],
        output_tokens=20,
        max_tokens=64,
        text_bytes=60,
        finish_reason="stop",
        chunk_ns=at,
        chunk_tokens=[1] * 20,
        tokens_in_first_chunk=1,
    )
    return msgspec.structs.replace(whole, **changes)


UNTRUE = {
    "usage stands still": ({"output_tokens": 1, "chunk_tokens": []}, "20 chunks held text"),
    "usage is negative": ({"output_tokens": -14_905}, "-14905 tokens"),
    "usage is beyond all measure": ({"output_tokens": 2**62}, "64 were asked for"),
    "more than was asked": ({"output_tokens": 65}, "64 were asked for"),
    "most of it is hidden": ({"output_tokens": 500, "max_tokens": 512}, "60 bytes of text"),
    "counts nothing": (
        {"output_tokens": 0, "reason": "bad_count", "detail": "counted no token"},
        "counted no token",
    ),
}


@pytest.mark.parametrize(("changes", "said"), UNTRUE.values(), ids=UNTRUE)
def test_a_token_count_that_cannot_be_true_empties_what_rests_on_it(
    changes: dict[str, object], said: str
) -> None:
    rows = [reply(), reply(**changes)]

    row = summarise(rows, report(), speculative=False)

    assert all(row.get(name) is None for name in (*TOKENS, *STEPS))
    assert said in row["in_doubt"]["counts_in_doubt"]
    assert "1 of 2 replies" in row["in_doubt"]["counts_in_doubt"]
    assert "counts_in_doubt" in raised_flags(row, report(), rows, n_prompts=9)
    assert row["ttft_ms_p50"] == 10


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"output_tokens": 19, "chunk_tokens": []},  # one chunk of what was held back
        {"output_tokens": 24, "chunk_tokens": [], "text_bytes": 20},  # marks of a template
        {"output_tokens": 64, "chunk_tokens": [], "text_bytes": 20, "finish_reason": "length"},
        {"output_tokens": None, "chunk_tokens": []},
        {"chunk_ns": [], "text_bytes": 0, "finish_reason": "tool_calls"},
    ],
)
def test_counts_that_can_be_true_are_left_alone(changes: dict[str, object]) -> None:
    assert wrong_count(reply(**changes)) == ""


def test_a_plain_arm_whose_replies_carry_counters_of_speculation_is_not_plain() -> None:
    rows = [reply(spec_verify_ct=2, spec_accepted=18)]

    row = summarise(rows, report(), speculative=False)

    assert row["accept_len"] is None
    assert row["tok_s"] is None
    assert "declared to decode plainly" in row["in_doubt"]["counts_in_doubt"]


def test_counters_of_zero_are_those_of_a_plain_server() -> None:
    assert untrue([reply(spec_verify_ct=0)], speculative=False) == ({}, ())


@pytest.mark.parametrize(("steps", "accepted", "tokens"), [(2, 10, 9), (3, 2, 20)])
def test_steps_and_drafts_that_do_not_make_the_tokens_give_no_accept_len(
    steps: int, accepted: int, tokens: int
) -> None:
    """Drafts behind the end, and steps that are counted only where they had a draft."""
    one = record(1)
    one.output_tokens, one.spec_verify_ct, one.spec_accepted = tokens, steps, accepted
    one.spec_histogram = None

    row = summarise([one], report(), speculative=True)

    assert [row[name] for name in STEPS] == [None] * len(STEPS)
    assert row["tok_s"] is not None
    assert "verify steps and accepted drafts" in row["in_doubt"]["counts_in_doubt"]


def test_a_last_step_that_was_cut_is_no_contradiction() -> None:
    long = record(1)
    long.output_tokens, long.spec_verify_ct, long.spec_accepted = 64, 16, 50

    assert untrue([long], speculative=True) == ({}, ())


def test_drafts_behind_the_end_of_short_replies_are_no_accept_len() -> None:
    """Nine tokens in two steps that accepted five drafts each: 4 a step, and not 6."""
    short = {"output_tokens": 9, "chunk_tokens": [], "chunk_ns": [], "spec_verify_ct": 2}
    rows = [reply(**short, spec_accepted=10, spec_histogram=[0, 0, 0, 0, 0, 2])]

    row = summarise(rows, report(), speculative=True)

    assert row["accept_len"] is None
    assert row["step_ms"] is None
    assert "make 12 tokens, and 8 came" in row["in_doubt"]["counts_in_doubt"]


def test_one_uncounted_reply_leaves_the_throughput_empty() -> None:
    """Missing usage is missing, not no tokens."""
    rows = [reply(), reply(output_tokens=None, chunk_tokens=[], reason="no_usage")]

    row = summarise(rows, report(), speculative=False)

    assert (row["tok_s"], row["tok_s_window"], row["output_tokens"]) == (None, None, None)
