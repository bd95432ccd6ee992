"""The hostile servers: a name, and what is wrong with it. Everything else answers as it should."""

import gzip
from dataclasses import dataclass, field

from hostile.wire import (
    CLOSE,
    DONE,
    END,
    HANG,
    RESET,
    Answer,
    Forever,
    Json,
    Pause,
    chunk,
    document,
    event,
    finish,
    head,
    stream,
    usage,
    words,
)

WORD = {"choices": [{"index": 0, "delta": {"content": "w "}}]}
DEEP = b"[" * 200_000
BIDI = "\u202e\u2066\x1b]0;owned\x07\x1b[31mred\x9b31m\r\n\x00"
MIB = 1 << 20
BOMB = gzip.compress(bytes(64 * MIB), 9) * 16
"""One megabyte, and a gigabyte when it is unpacked: members of gzip may follow each other."""


@dataclass(frozen=True)
class Server:
    """One server. `owner` is the product that it claims to be; `get` and `post` map a path (or
    `*`, any) to an answer in place of the good one. `silent`: nothing is ever answered there, and
    default patience must do."""

    name: str
    post: dict[str, Answer] = field(default_factory=dict)
    get: dict[str, Answer] = field(default_factory=dict)
    owner: str = "someone"
    silent: bool = False


def every() -> list[Server]:
    """Give all of them; names are unique."""
    found = [
        *_of_wire("get", WIRE),
        *_of_wire("post", WIRE),
        *(Server(f"post: {name}", post={"*": answer}) for name, answer in STREAMS.items()),
        *(
            Server(f"event: {name}", post={"*": stream(*payloads)})
            for name, payloads in EVENTS.items()
        ),
        *(
            Server(f"native: {name}", post={"/generate": stream(*payloads)}, owner="sglang")
            for name, payloads in NATIVE.items()
        ),
        *(
            Server(f"told: {name}", get={path: (document(body),)}, owner=owner)
            for name, (owner, path, body) in TOLD.items()
        ),
    ]
    assert len({one.name for one in found}) == len(found)
    return found


SILENT = frozenset({"silence", "closes", "resets"})


def _of_wire(method: str, table: dict[str, Answer]) -> list[Server]:
    return [
        Server(f"{method}: {name}", **{method: {"*": answer}}, silent=name in SILENT)
        for name, answer in table.items()
    ]


def _crumbs(*pieces: bytes) -> Answer:
    return tuple(act for byte in b"".join(pieces) for act in (bytes([byte]), Pause(0.0005)))


# Wrong for any request, be it for models or for a reply.
WIRE: dict[str, Answer] = {
    "silence": HANG,
    "closes": CLOSE,
    "resets": RESET,
    "a byte a second": (document(b"", length="1000"), Forever(b" ", 1.0)),
    "a byte of the head a second": (b"HTTP/1.1 200 OK\r\nX: ", Forever(b"x", 1.0)),
    "1xx for ever": (Forever(b"HTTP/1.1 100 Continue\r\n\r\n", 0.001),),
    "endless body": (document(b"", length=""), Forever(b"x" * MIB)),
    "endless chunks": (head("application/json"), Forever(chunk(b"[" * MIB))),
    "endless head": (b"HTTP/1.1 200 OK\r\n", Forever(b"X-A: b\r\n")),
    "endless line of the head": (b"HTTP/1.1 200 OK\r\nX: ", Forever(b"x" * 65536)),
    "head only": (b"HTTP/1.1 200 OK\r\n\r\n", "close"),
    "half a status": (b"HTTP/1.1 2", "close"),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "close"),
    "binary": (bytes(range(256)) * 64, "close"),
    "ssh banner": (b"SSH-2.0-OpenSSH_9.9\r\n", "close"),
    "http 0.9": (b"<html>hello</html>", "close"),
    "http 1.0": (document({"data": []}, version="HTTP/1.0", length=""), "close"),
    "http 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "hang"),
    "redirect": (document(b"", "307 X", headers=["Location: http://127.0.0.1:1/"]),),
    "redirect to itself": (document(b"", "301 X", headers=["Location: ?"]),),
    "401": (document({"error": "Unauthorized"}, "401 Unauthorized"),),
    "403": (document({"error": {"message": BIDI}}, "403 Forbidden"),),
    "404": (document({"detail": "Not Found"}, "404 Not Found"),),
    "429": (document(b"slow down", "429 Too Many", headers=["Retry-After: 1e999"]),),
    "500": (document(b"<html>" + b"x" * MIB, "500 X", "text/html"),),
    "status 999": (document(b"", "999 X"),),
    "status 200 000": (document(b"", "200000 OK"),),
    "status -1": (document(b"", "-1 OK"),),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n",),
    "gzip": (document(gzip.compress(b"{}"), headers=["Content-Encoding: gzip"]),),
    "gzip bomb": (document(BOMB, headers=["Content-Encoding: gzip"]),),
    "not gzip": (document(b"{}", headers=["Content-Encoding: gzip"]),),
    "html": (document(b"<html>log in</html>", kind="text/html"),),
    "no type": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",),
    "wrong type": (document(b"{}", kind="image/png"),),
    "too long a length": (document(b"{}", length="99999999999999999999"), "hang"),
    "negative length": (document(b"{}", length="-5"), "close"),
    "two lengths": (document(b"{}", headers=["Content-Length: 9"]), "close"),
    "length and chunks": (document(b"{}", headers=["Transfer-Encoding: chunked"]), "close"),
    "bad chunk size": (head("application/json") + b"zz\r\n{}\r\n", "close"),
    "huge chunk size": (head("application/json") + b"ffffffffffffffff\r\n{}", "close"),
    "negative chunk size": (head("application/json") + b"-1\r\n{}\r\n", "close"),
    "unended chunks": (head("application/json") + chunk(b"{}"), "hang"),
    "trailers": (head("application/json") + chunk(b"{}") + b"0\r\nX: y\r\n\r\n",),
    "truncated JSON": (document(b'{"data": [{"id": "m"'),),
    "deep JSON": (document(DEEP),),
    "not UTF-8": (document(b'{"data":[{"id":"\xff\xfe"}]}'),),
    "null": (document(b"null"),),
    "huge number": (document(b'{"data":[{"id":' + b"9" * 100_000 + b"}]}"),),
    "NaN": (document(b'{"data":[{"id":NaN}]}'),),
    "duplicate answers": (document({"data": [{"id": "m"}]}) * 3,),
    "control in a header": (b"HTTP/1.1 200 O\x1bK\r\nX: \x00\x1b\r\nContent-Length: 2\r\n\r\n{}",),
}

# A stream is where these go wrong.
STREAMS: dict[str, Answer] = {
    "stalls in the middle": (head(), event(WORD), "hang"),
    "closes in the middle": (head(), event(WORD), "close"),
    "resets in the middle": (head(), event(WORD), "reset"),
    "half an event": (head(), chunk(b'data: {"choices":[{"ind'), "close"),
    "an event a second": (head(), Forever(event(WORD), 1.0)),
    "a byte of an event a second": (head(), chunk(b"data: "), Forever(chunk(b" "), 1.0)),
    "comments for ever": (head(), Forever(chunk(b": ping\n\n"), 0.05)),
    "comment flood": (head(), Forever(chunk(b": " + b"x" * 65536 + b"\n\n"))),
    "empty events for ever": (head(), Forever(chunk(b"data:\n\n"), 0.01)),
    "heartbeats for ever": (head(), Forever(event({"type": "ping"}), 0.05)),
    "tokens for ever": (head(), Forever(event(WORD), 0.001)),
    "an endless line": (head(), chunk(b"data: "), Forever(chunk(b"x" * 65536))),
    "one event of 16 MiB": (head(), event({"choices": [{"delta": {"content": "x" * (16 * MIB)}}]})),
    "no end of chunks": (head(), *(event(each) for each in words()), DONE, "hang"),
    "more after the end": (*stream(*words(), finish(), usage()), b"garbage\x00" * 64),
    "compressed": (head(headers=["Content-Encoding: br"]), chunk(b"\x0b\x02\x80"), END),
    "no stream": (document({"choices": [{"message": {"content": "a b"}}]}),),
    "no stream, no choice": (document({}),),
    "bytes one by one": (*_crumbs(head(), *map(event, [*words(3), finish(), usage(3)])), DONE, END),
    "byte order mark": (head(), chunk(b"\xef\xbb\xbf"), *stream(*words(), finish(), usage())[1:]),
}

EVENTS: dict[str, list[bytes | Json]] = {
    "nothing": [],
    "no finish": words(),
    "an array": [[WORD]],
    "a number": [b"7"],
    "a text": [b'"text"'],
    "null": [b"null"],
    "true": [b"true"],
    "not JSON": [b"{oops"],
    "deep": [DEEP],
    "deep content": [b'{"choices":[{"delta":{"content":' + DEEP],
    "not UTF-8": [b'{"choices":[{"delta":{"content":"\xff\xfe"}}]}', finish(), usage()],
    "half a surrogate pair": [
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"\\udc00\\udc00"}}]}',
        finish(),
        usage(2),
    ],
    "terminal codes": [*words(4, BIDI), finish(), usage(4)],
    "terminal codes in an error": [{"error": {"message": BIDI}}],
    "terminal codes in a finish": [*words(), finish(BIDI), usage()],
    "an error": [*words(2), {"error": {"message": "CUDA out of memory", "code": 500}}],
    "an error of wrong type": [{"error": [[], {}, 3]}],
    "choices null": [{"choices": None}, finish(), usage()],
    "choices a map": [{"choices": {"0": WORD}}],
    "choices of numbers": [{"choices": [1, 2]}],
    "no delta": [{"choices": [{}]}, finish(), usage()],
    "delta a text": [{"choices": [{"delta": "w"}]}],
    "content a number": [{"choices": [{"delta": {"content": 5}}]}, finish(), usage()],
    "content a list": [
        *[{"choices": [{"delta": {"content": [{"type": "text", "text": "w"}]}}]}] * 8,
        finish(),
        usage(),
    ],
    "content of nothing": [*words(8, ""), finish(), usage()],
    "finish a number": [*words(), finish(3), usage()],
    "finish at once": [finish("stop"), usage(1)],
    "count negative": [*words(), finish(), usage(-14)],
    "count zero": [*words(), finish(), usage(0)],
    "count huge": [*words(), finish(), usage(10**30)],
    "count of 10,000 digits": [
        *words(),
        finish(),
        b'{"choices":[],"usage":{"completion_tokens":' + b"9" * 10_000 + b"}}",
    ],
    "count 1e308": [*words(), finish(), usage(1e308)],
    "count NaN": [*words(), b'{"choices":[],"usage":{"completion_tokens":NaN}}'],
    "count infinite": [*words(), b'{"choices":[],"usage":{"completion_tokens":1e999}}'],
    "count 8.0": [*words(), finish(), usage(8.0)],
    "count 8.5": [*words(), finish(), usage(8.5)],
    "count a text": [*words(), finish(), usage("8")],
    "count a list": [*words(), finish(), usage([8])],
    "count true": [*words(), finish(), usage(True)],
    "count of the prompt negative": [*words(), finish(), usage(8, -3)],
    "usage a text": [*words(), finish(), {"choices": [], "usage": "8"}],
    "usage that falls": [{**WORD, "usage": {"completion_tokens": 9 - n}} for n in range(8)],
    "usage that stands still": [{**WORD, "usage": {"completion_tokens": 1}}] * 8 + [finish()],
    "no usage": [*words(), finish()],
    "tool calls only": [{"choices": [{"delta": {"tool_calls": [{}]}}]}, finish("tool_calls")],
    "reasoning only": [{"choices": [{"delta": {"reasoning_content": "h"}}]}, finish(), usage(1)],
    "keys twice": [b'{"choices":[],"choices":[{"delta":{"content":"w"}}]}', finish(), usage(1)],
    "a key of 1 MiB": [{"x" * MIB: 1, **WORD}, finish(), usage(1)],
    "10,000 choices": [{"choices": [{"delta": {"content": "w"}}] * 10_000}, finish(), usage(1)],
}

_META = {"finish_reason": {"type": "length"}, "prompt_tokens": 9, "completion_tokens": 8}


def _native(**meta: Json) -> list[bytes | Json]:
    return [{"text": "w w w w", "meta_info": {**_META, **meta}}]


NATIVE: dict[str, list[bytes | Json]] = {
    "no meta": [{"text": "w"}],
    "meta a text": [{"text": "w", "meta_info": "x"}],
    "text null": [{"text": None, "meta_info": _META}],
    "text shrinks": [{"text": "w w"}, {"text": "w", "meta_info": _META}],
    "steps negative": _native(spec_verify_ct=-3),
    "steps huge": _native(spec_verify_ct=10**25),
    "steps a text": _native(spec_verify_ct="3"),
    "accepted more than counted": _native(spec_verify_ct=2, spec_accepted_drafts=10**9),
    "accept length NaN": [
        b'{"text":"w","meta_info":{"completion_tokens":8,"spec_accept_length":NaN}}'
    ],
    "histogram negative": _native(spec_verify_ct=2, spec_accept_histogram=[-1, 3]),
    "histogram of texts": _native(spec_verify_ct=2, spec_accept_histogram=["1"]),
    "histogram of a million": _native(spec_verify_ct=2, spec_accept_histogram=[0] * 1_000_000),
    "ids negative": [{"text": "w", "output_ids": [-1, -2], "meta_info": _META}],
    "ids huge": [{"text": "w", "output_ids": [10**22], "meta_info": _META}],
}

_LIST = "/v1/models"
TOLD: dict[str, tuple[str, str, Json | bytes]] = {
    "no models": ("someone", _LIST, {"data": []}),
    "models a map": ("someone", _LIST, {"data": {"m": 1}}),
    "models of numbers": ("someone", _LIST, {"data": [1, None, "m"]}),
    "a name of terminal codes": ("someone", _LIST, {"data": [{"id": BIDI}]}),
    "a name of markup": ("someone", _LIST, {"data": [{"id": "[red]m[/red]:smile:[link=x]"}]}),
    "a name of 1 MiB": ("someone", _LIST, {"data": [{"id": "m" * MIB}]}),
    "a name that is a number": ("someone", _LIST, {"data": [{"id": 10**40}]}),
    "a name that is half a pair": ("someone", _LIST, b'{"data":[{"id":"\\ud83d"}]}'),
    "100,000 models": ("someone", _LIST, {"data": [{"id": f"m{n}"} for n in range(100_000)]}),
    "an owner of wrong type": ("someone", _LIST, {"data": [{"id": "m", "owned_by": [1]}]}),
    "info a list": ("sglang", "/server_info", [1, 2]),
    "info of wrong types": (
        "sglang",
        "/server_info",
        {"version": 5, "speculative_algorithm": ["x"], "tp_size": "two", "internal_states": 3},
    ),
    "info of huge numbers": (
        "sglang",
        "/server_info",
        {"speculative_num_draft_tokens": 10**40, "max_running_requests": -1},
    ),
    "info deep": ("sglang", "/server_info", DEEP),
    "info of terminal codes": ("sglang", "/server_info", {"version": BIDI}),
    "states of wrong types": (
        "sglang",
        "/server_info",
        {"internal_states": [None, 3, {"avg_spec_accept_length": "NaN"}]},
    ),
    "model of wrong types": ("sglang", "/model_info", {"model_path": 3, "is_generation": "no"}),
    "version of wrong type": ("vllm", "/version", {"version": {"a": 1}}),
    "metrics of garbage": ("vllm", "/metrics", b"vllm:x{ \x00\nvllm:spec NaN\n" * 100),
    "props of wrong types": ("llamacpp", "/props", {"default_generation_settings": 3}),
    "props of huge numbers": ("llamacpp", "/props", {"total_slots": 10**40, "build_info": None}),
    "slots of wrong types": ("llamacpp", "/slots", {"a": "b"}),
}
