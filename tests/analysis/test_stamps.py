"""A figure is shown only where its own bound is small beside it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis import stamps
from specbench.analysis.summary import raised_flags, summarise
from specbench.model.columns import COLUMNS
from specbench.model.load import Accuracy, DriveReport, RequestRecord
from tests.recording.records import report

MS = 1_000_000
RESTING = (
    *(c.name for c in COLUMNS if c.compared and c.unit == "ms" and c.quantity != "e2e_ms"),
    "tok_s_user",
)
"""What is compared and told in milliseconds rests on the stamps of chunks, but for the end's."""


def reply(
    number: int = 0, *, ttft: int = 50, gap: int = 10, chunks: int = 20, **doubt: int | None
) -> RequestRecord:
    """Give a plain reply of a token a chunk; `first` and `last` are its doubts in ms."""
    at = [(ttft + gap * index) * MS for index in range(chunks)]
    first, last = doubt.get("first", 0), doubt.get("last", 0)
    return RequestRecord(
        rid=f"r{number}",
        prompt_id="p",
        written_ns=0,
        first_token_ns=at[0],
        last_token_ns=at[-1],
        end_ns=at[-1],
        output_tokens=chunks,
        chunk_ns=at,
        chunk_tokens=[1] * chunks,
        tokens_in_first_chunk=1,
        first_doubt_ns=None if first is None else first * MS,
        last_doubt_ns=None if last is None else last * MS,
    )


def test_stamps_that_are_sure_withhold_nothing() -> None:
    row = summarise([reply()], report(), speculative=False)

    assert row["in_doubt"] is None
    assert None not in [row[name] for name in RESTING]


def test_a_first_chunk_that_was_kept_back_withholds_all_that_rests_on_it() -> None:
    late = reply(ttft=44, gap=6, chunks=12, first=44)

    row = summarise([late], report(), speculative=False)

    assert [row[name] for name in RESTING] == [None] * len(RESTING)
    assert row["tok_s"] is not None
    assert row["e2e_ms_p50"] is not None
    assert (
        "ttft_ms_p50 was seen as 44, right within 44.1 only" in row["in_doubt"]["stamps_in_doubt"]
    )
    assert "stamps_in_doubt" in raised_flags(row, report(), [late], n_prompts=9)


def test_a_long_reply_carries_its_pace_though_its_first_chunk_is_in_doubt() -> None:
    row = summarise([reply(ttft=44, chunks=200, first=44)], report(), speculative=False)

    assert row["ttft_ms_p50"] is None
    assert row["tpot_ms_p50"] == pytest.approx(10)


def test_one_doubtful_reply_of_many_withholds_the_tail_and_not_the_median() -> None:
    rows = [reply(number, ttft=50 + number) for number in range(39)]
    rows.append(reply(39, ttft=200, first=150))

    row = summarise(rows, report(), speculative=False)

    assert row["ttft_ms_p50"] is not None
    assert row["ttft_ms_p99"] is None


def test_old_rows_have_the_bounds_of_their_trial() -> None:
    old = reply(first=None, last=None)
    old.inexact_stamps = 3
    said = Accuracy(stamp="kernel", processes=1, events=9, reads=9, ttft_error_us=43_874.0)

    row = summarise([old], msgspec.structs.replace(report(), accuracy=said), speculative=False)

    assert row["ttft_ms_p50"] is None


def test_gaps_of_merged_chunks_are_withheld() -> None:
    merged = reply()
    merged.inexact_stamps = 20

    row = summarise([merged], report(), speculative=False)

    assert row["chunk_gap_ms_p50"] is None
    assert row["tpot_ms_p50"] == pytest.approx(10)


def test_replies_in_one_stamp_have_no_tpot_and_are_counted_out() -> None:
    row = summarise([reply(0), reply(1, chunks=1), reply(2, gap=0)], report(), speculative=False)

    assert row["tpot_n"] == 1


times = st.integers(1, 10**4)


@given(st.lists(st.tuples(times, times, times, times), min_size=1, max_size=20))
def test_the_bounds_cover_every_truth_that_the_doubts_allow(
    rows: list[tuple[int, int, int, int]],
) -> None:
    seen, true = [], []
    for ttft, gap, first, last in rows:
        early, late = min(first, ttft), min(last, 19 * gap)
        seen.append(reply(ttft=ttft, gap=gap, first=early, last=late))
        truth = reply(ttft=ttft, gap=gap)
        truth.first_token_ns = (truth.first_token_ns or 0) - early * MS
        truth.last_token_ns = (truth.last_token_ns or 0) - late * MS
        true.append(truth)
    accuracy = Accuracy(stamp="kernel", processes=1, events=9, reads=9)
    figures = _figures(seen)

    bounds = stamps.errors(figures, seen, accuracy)

    for name, value in _figures(true).items():
        if name in bounds and value is not None:
            assert abs(value - figures[name]) <= bounds[name] * (1 + 1e-9), name


def _figures(records: list[RequestRecord]) -> dict[str, float]:
    whole: DriveReport = report()
    unbounded = [
        msgspec.structs.replace(record, first_doubt_ns=0, last_doubt_ns=0) for record in records
    ]
    row = summarise(unbounded, whole, speculative=False)
    return {name: row[name] for name in RESTING if row[name] is not None}


def test_a_gap_is_withheld_where_chunks_in_doubt_may_have_moved_it() -> None:
    vague = reply()
    vague.inexact_stamps = 6

    row = summarise([vague], report(), speculative=False)

    gaps = [column.name for column in COLUMNS if column.quantity == "chunk_gap_ms"]
    assert [row[name] for name in gaps] == [None] * len(gaps)
