"""Servers whose counts contradict their streams: from the wire to the columns of a trial."""

import socket
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.summary import raised_flags, summarise
from specbench.model.load import Closed, Target
from tests.loadgen.scripted import (
    DONE,
    END,
    HEAD,
    chunk,
    event,
    finish,
    make_load,
    run,
    serving,
    usage,
    word,
)

pytestmark = pytest.mark.process

WORDS = 12
SPENT = ("tok_s", "tok_s_window", "tok_s_user", "tpot_ms_p50", "output_tokens", "step_ms")


def words(counts: list[int] | None = None) -> list[bytes]:
    return [word(f"w{n} ", counts[n] if counts else None) for n in range(WORDS)]


def with_counters(**counters: Any) -> bytes:
    """Give a last event with vLLM's counters of speculation in it."""
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return event(last | {"metrics": {"speculative_decoding": counters}})


UNTRUE: dict[str, tuple[list[bytes], str]] = {
    "usage stands still": ([*words([1] * WORDS), finish(), usage(1)], "12 chunks held text"),
    "usage is zero": ([*words(), finish(), usage(0)], "counted no token"),
    "usage is negative": ([*words(), finish(), usage(-300)], "-300"),
    "usage is more than was asked for": ([*words(), finish(), usage(10**9)], "16 were asked for"),
    "usage is beyond all measure": ([*words(), finish(), usage(10**30)], "more than 10^12"),
    "usage falls": ([*words([*range(3, 14), 1]), finish(), usage(12)], "the count fell"),
}


def measure(
    folder: Path, events: list[bytes], *, speculative: bool = False
) -> tuple[dict[str, Any], tuple[str, ...]]:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(HEAD)
        for each in (*events, DONE):
            connection.sendall(chunk(each))
            server.closing_or(0.004)
        connection.sendall(END)

    with serving(script) as server:
        url = f"http://127.0.0.1:{server.port}"
        target = Target(url=url, model="m", engine="vllm")
        load = make_load(folder, url, shape=Closed(concurrency=1), requests=2, target=target)
        report, found = run(load, folder / "rows")
    row = summarise(found, report, speculative=speculative)
    return row, raised_flags(row, report, found, n_prompts=7)


@pytest.mark.parametrize(("events", "said"), UNTRUE.values(), ids=UNTRUE)
def test_counts_that_cannot_be_true_leave_their_figures_empty_and_say_why(
    events: list[bytes], said: str, tmp_path: Path
) -> None:
    row, flags = measure(tmp_path, events)

    assert {name: row[name] for name in SPENT} == dict.fromkeys(SPENT)
    assert "counts_in_doubt" in flags
    assert said in row["in_doubt"]["counts_in_doubt"]


def test_a_server_that_counts_nothing_leaves_them_empty_without_a_contradiction(
    tmp_path: Path,
) -> None:
    row, flags = measure(tmp_path, [*words(), finish()])

    assert {name: row[name] for name in SPENT} == dict.fromkeys(SPENT)
    assert "counts_in_doubt" not in flags
    assert row["tpot_n"] == 0


def test_drafts_behind_the_end_token_are_no_accept_len(tmp_path: Path) -> None:
    last = with_counters(
        num_spec_steps=2,
        num_accepted_draft_tokens=20,
        num_draft_tokens=20,
        acceptance_histogram=[0] * 10 + [2],
        mean_acceptance_length=11.0,
    )

    row, flags = measure(tmp_path, [*words(), last, usage(WORDS)], speculative=True)

    assert (row["accept_len"], row["step_ms"], row["verify_steps"]) == (None, None, None)
    assert row["tok_s"] is not None
    assert "counts_in_doubt" in flags


def test_an_arm_that_is_called_plain_and_speculates_is_found_out(tmp_path: Path) -> None:
    last = with_counters(
        num_spec_steps=4, num_accepted_draft_tokens=7, acceptance_histogram=[0, 1, 3]
    )

    row, flags = measure(tmp_path, [*words(), last, usage(WORDS)], speculative=False)

    assert (row["accept_len"], row["tok_s"]) == (None, None)
    assert "counts_in_doubt" in flags


def test_counts_that_agree_are_believed(tmp_path: Path) -> None:
    row, flags = measure(tmp_path, [*words(list(range(1, 13))), finish(), usage(WORDS)])

    assert "counts_in_doubt" not in flags
    assert row["output_tokens"] == 2 * WORDS
