"""Counting by the server's tokenizer what the server itself did not count; only when asked.

A text is not its tokens: tokenizing it again may give another number than was generated. So such
counts are marked `retokenised`, chunks stay uncounted, and nothing is done unless the load says so.
"""

import os
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from specbench.model.json_text import NOT_JSON
from specbench.model.load import LoadSpec, RequestRecord, Target

TIMEOUT_S = 30.0


class _Tokenized(msgspec.Struct):
    """The answer of /tokenize, as most servers that have it give it."""

    count: int | None = None
    tokens: list[int] | None = None


def retokenise(sink: Path, load: LoadSpec, drive_id: str) -> int:
    """Count the uncounted rows of one drive; gives how many were. The sink is replaced whole.

    A server without /tokenize, or one that is gone, leaves rows uncounted.
    """
    decode = msgspec.json.Decoder(RequestRecord).decode
    counted = 0
    aside = sink.with_name(sink.name + ".retokenised")
    with sink.open("rb") as rows, aside.open("wb") as out:
        for line in rows:
            if drive_id.encode() not in line:
                out.write(line)
                continue
            record = decode(line)
            if record.output_tokens is None and record.text and record.status == "ok":
                record.output_tokens = _count(load.target, record.text)
                if record.output_tokens is not None:
                    record.count_source = "retokenised"
                    counted += 1
            if not load.keep_text and record.prompt_id not in load.keep_text_of:
                record.text = record.output_ids = None
            out.write(msgspec.json.encode(record) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    aside.replace(sink)
    return counted


def _count(target: Target, text: str) -> int | None:
    body = {"model": target.model, "prompt": text, "add_special_tokens": False}
    headers = {"Content-Type": "application/json"}
    if target.api_key_env:
        headers["Authorization"] = f"Bearer {os.environ[target.api_key_env]}"
    request = Request(  # noqa: S310 - http(s) only, see endpoint
        target.url.rstrip("/") + "/tokenize", msgspec.json.encode(body), headers
    )
    opener = build_opener() if target.use_proxy else build_opener(ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            found = msgspec.json.decode(answer.read(), type=_Tokenized)
    except (URLError, OSError, *NOT_JSON):
        return None
    return len(found.tokens) if found.tokens is not None else found.count
