"""The stream decoder: the same record however the bytes were split, and nothing out of garbage."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.products import backend_for
from specbench.loadgen.hotpath.client_stats import ClientStats
from specbench.loadgen.hotpath.exchange import Exchange
from specbench.loadgen.hotpath.read_log import LoopTick
from specbench.model.load import Api, RequestRecord
from tests.loadgen.scripted import DONE, END, GOOD, HEAD, chunk, event, finish, stream, usage, word

START = 1_000_000_000
WALL = 1_700_000_000_000_000_000
UTF8 = [word("añ", 1), word("语言", 3), word("🙂", 4), finish(), usage(4), DONE]


def exchange(api: Api = "chat") -> Exchange:
    record = RequestRecord(rid="r", prompt_id="p")
    begun = Exchange(
        record, b"", backend_for("").reader(api, record, keep_text=True), origin_ns=START
    )
    begun.intended_ns = begun.written_ns = START
    return begun


def feed(pieces: list[bytes], *, api: Api = "chat", close: bool = False) -> RequestRecord:
    """Feed reads a millisecond apart, stamped by the kernel 5 us before the read."""
    begun = exchange(api)
    over = False
    for number, piece in enumerate([*pieces, b""] if close else pieces, 1):
        if over:
            break
        wall = WALL + number * 1_000_000
        stamp = struct.pack("@qq", *divmod(wall - 5_000, 10**9))
        over = begun.hear(piece, stamp, LoopTick(START, wall, START + number * 1_000_000))
    begun.settle(ClientStats())
    return begun.record


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted({cut % len(data) for cut in cuts} - {0}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(places)]


def essence(record: RequestRecord) -> tuple[object, ...]:
    return (
        record.status,
        record.reason,
        record.text,
        record.output_tokens,
        record.chunk_tokens,
        len(record.chunk_ns),
        record.finish_reason,
    )


@given(st.sampled_from([GOOD, UTF8]), st.lists(st.integers(0, 10_000), max_size=40))
def test_splits_change_nothing_but_times(events: list[bytes], cuts: list[int]) -> None:
    whole = feed([stream(events)])

    parts = feed(split(stream(events), cuts))

    assert essence(parts) == essence(whole)
    assert whole.status == "ok"
    assert sorted(parts.chunk_ns) == parts.chunk_ns


@given(st.integers(1, 5000), st.sampled_from(["\n", "\r\n", "\r"]))
def test_line_ends_and_chunk_sizes_change_nothing(size: int, newline: str) -> None:
    body = b"".join(GOOD).replace(b"\n", newline.encode())
    chunks = [chunk(body[at : at + size]) for at in range(0, len(body), size)]

    found = feed([HEAD + b"".join(chunks) + END])

    assert essence(found) == essence(feed([stream(GOOD)]))


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=20))
def test_garbage_is_no_crash_and_no_token(pieces: list[bytes]) -> None:
    found = feed(pieces, close=True)

    assert found.status in ("failed", "truncated")
    assert found.output_tokens is None
    assert not found.chunk_ns


@given(st.lists(st.binary(max_size=100), max_size=20), st.lists(st.integers(0, 10_000), max_size=9))
def test_garbage_in_a_stream_is_no_crash_and_no_token(pieces: list[bytes], cuts: list[int]) -> None:
    data = HEAD + b"".join(chunk(piece) for piece in pieces if piece) + END

    found = feed(split(data, cuts), close=True)

    assert not found.chunk_ns
    assert found.output_tokens is None


@given(st.binary(max_size=30), st.integers(0, 2000))
def test_a_damaged_stream_never_gains_tokens(noise: bytes, place: int) -> None:
    data = stream(GOOD)
    place %= len(data)

    found = feed([data[:place] + noise + data[place + len(noise) :]], close=True)

    assert len(found.chunk_ns) <= len(GOOD)
    assert sum(found.chunk_tokens) <= (found.output_tokens or 0)


@given(st.integers(1, 2000))
def test_a_stream_cut_anywhere_is_not_ok(place: int) -> None:
    data = stream(GOOD)
    kept = data[: place % len(data)]

    found = feed([kept], close=True)

    assert found.status != "ok" or kept.endswith(b"0\r\n\r")


def test_an_event_is_stamped_when_its_last_byte_arrived() -> None:
    first, second = chunk(GOOD[0]), chunk(GOOD[1])

    found = feed([HEAD, first, second[:20], second[20:], chunk(finish()) + chunk(usage(3)), END])

    assert found.chunk_ns == [2_000_000 - 5_000, 4_000_000 - 5_000]
    assert found.first_token_ns == found.chunk_ns[0]
    assert found.stamp == "kernel"
    assert found.read_lag_max_us == 5.0


def test_chunks_that_share_a_read_are_counted_as_inexact() -> None:
    found = feed([HEAD, chunk(GOOD[0]) + chunk(GOOD[1]), chunk(GOOD[2]), chunk(finish()), END])

    assert found.inexact_stamps == 2  # either may have been kept back for the other
    assert len(found.chunk_ns) == 3
    assert found.first_doubt_ns == 1_000_000  # since the read of the head
    assert found.last_doubt_ns == 0


def test_role_finish_and_usage_events_are_no_tokens() -> None:
    role = event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})

    found = feed([HEAD, chunk(role), chunk(GOOD[0]), chunk(finish()), chunk(usage(1)), END])

    assert found.chunk_ns == [3_000_000 - 5_000]


def test_without_a_kernel_stamp_the_read_is_the_arrival() -> None:
    begun = exchange()
    for number, piece in enumerate([HEAD + chunk(GOOD[0]), chunk(finish()) + END], 1):
        begun.hear(piece, b"", LoopTick(START, WALL, START + number * 1_000_000))
    begun.settle(ClientStats())

    assert begun.record.chunk_ns == [1_000_000]
    assert begun.record.stamp == "read"


@pytest.mark.parametrize("closing", [END, b"0\r\nTrailer: x\r\n\r\n"])
def test_the_end_of_chunks_is_found_however_it_arrives(closing: bytes) -> None:
    for cut in range(1, len(closing)):
        begun = exchange()
        pieces = [HEAD, *map(chunk, GOOD), closing[:cut], closing[cut:]]
        over = [begun.hear(piece, b"", LoopTick(START, WALL, START)) for piece in pieces]

        assert over == [False] * (len(pieces) - 1) + [True]


def test_a_compressed_answer_is_named_and_not_read_as_nonsense() -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")

    record = feed([stream(GOOD).replace(HEAD, head)])

    assert (record.status, record.reason) == ("failed", "bad_http")
    assert "gzip" in record.detail
