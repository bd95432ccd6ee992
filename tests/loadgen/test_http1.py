"""Both parsers read the same response alike, however it is split."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.loadgen.hotpath.http1 import H11Response, HttptoolsResponse, Response
from tests.loadgen.scripted import GOOD, HEAD, stream

RESPONSES = {
    "chunked": stream(GOOD),
    "length": b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello",
    "closed": b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "continued": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "closing": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
}
PARSERS: list[Callable[[], Response]] = [HttptoolsResponse, H11Response]


def read(parser: Callable[[], Response], reads: list[bytes]) -> tuple[object, ...]:
    response = parser()
    ends = response.feed(reads)
    body = b"".join(response.pieces)
    complete = response.complete
    assert len(ends) == len(reads)
    assert ends == sorted(ends)
    response.end()
    return response.status, body, complete, response.complete, response.failure


@given(st.sampled_from(sorted(RESPONSES)), st.lists(st.integers(1, 2000), max_size=20))
def test_both_parsers_agree_however_the_bytes_are_split(name: str, cuts: list[int]) -> None:
    data = RESPONSES[name]
    places = [0, *sorted({cut % len(data) for cut in cuts} - {0}), len(data)]
    reads = [data[a:b] for a, b in itertools.pairwise(places)]

    fast, plain = (read(parser, reads) for parser in PARSERS)

    assert fast == plain
    assert fast[-1] == ""


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01 TLS?", b"HTTP/1.1 abc\r\n\r\n", HEAD + b"zz\r\n"]
)
def test_what_is_no_http_is_a_failure_and_no_exception(
    parser: Callable[[], Response], garbage: bytes
) -> None:
    response = parser()

    response.feed([garbage, b"more"])

    assert response.failure
    assert not response.complete


@pytest.mark.parametrize("parser", PARSERS)
def test_a_response_says_whether_its_connection_may_live(parser: Callable[[], Response]) -> None:
    kept, closed = parser(), parser()

    kept.feed([RESPONSES["length"]])
    closed.feed([RESPONSES["closing"]])

    assert (kept.keep_alive, closed.keep_alive) == (True, False)
