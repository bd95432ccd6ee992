"""The dictionary of definitions: what a figure of another tool means, and whether it is ours."""

import msgspec


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure means.

    `ours` says whether it may stand beside specbench's own figure of the same column; `proviso`
    is what has to be true for that, empty where nothing has.
    """

    id: str
    meaning: str
    ours: bool = False
    proviso: str = ""


UNKNOWN = "unknown"

_ALL = (
    Definition(id="specbench", meaning="the column of specbench's own table", ours=True),
    Definition(id=UNKNOWN, meaning="the tool's own figure; its definition is not known here"),
    Definition(id="count", meaning="a count of requests or tokens", ours=True),
    Definition(
        id="ttft/first-content",
        meaning="first chunk with content or reasoning - actual send",
        ours=True,
        proviso="specbench counts from the intended send: equal at a closed load",
    ),
    Definition(
        id="ttft/first-choices",
        meaning="first chunk with `choices` - send; an empty role chunk counts",
    ),
    Definition(
        id="ttft/several-stamps",
        meaning="first token - start; requests with one token stamp have none",
    ),
    Definition(
        id="tpot/after-first-chunk",
        meaning="(latency - TTFT) / (tokens - tokens of the first chunk), per request",
        ours=True,
        proviso="the tool takes 1 for the first chunk unless the server gives usage in every chunk",
    ),
    Definition(
        id="tpot/minus-one",
        meaning="(last token - first token) / (tokens - 1), per request, none for a single token",
    ),
    Definition(
        id="tpot/minus-one-or-zero",
        meaning="(latency - TTFT) / (tokens - 1), per request, 0 for a single token",
    ),
    Definition(id="tpot/with-ttft", meaning="(last token - request start) / tokens"),
    Definition(id="itl/shared-stamps", meaning="gaps between tokens; those of one chunk are 0"),
    Definition(id="chunk-gap/raw", meaning="time between stream chunks", ours=True),
    Definition(
        id="chunk-gap/maybe-retokenised",
        meaning="time between chunks, divided by retokenised counts on some routes",
    ),
    Definition(id="e2e/stream-end", meaning="end of the stream - send", ours=True,
               proviso="specbench counts from the intended send: equal at a closed load"),
    Definition(id="e2e/last-content", meaning="last chunk with content - send"),
    Definition(id="tok_s/sum-over-wall", meaning="output tokens / wall time", ours=True),
    Definition(
        id="tok_s/wall-with-status", meaning="output tokens / wall time and a status request"
    ),
    Definition(id="tok_s/time-weighted", meaning="mean over time of the token rate"),
    Definition(id="tok_s/first-to-last", meaning="output tokens / (last - first token)"),
    Definition(id="tok_s/per-gpu", meaning="output tokens / wall time / GPUs"),
    Definition(id="tok_s/aggregated", meaning="output tokens / duration of the run", ours=True),
    Definition(id="peak/chunks", meaning="most chunks in one second; not tokens"),
    Definition(id="tok_s_user/inverse-itl", meaning="1 / inter-token latency, over requests"),
    Definition(id="tok_s_user/inverse-tpot", meaning="1 / (decode time / (tokens - 1))"),
    Definition(id="concurrency/little", meaning="sum of latencies / wall time"),
    Definition(id="concurrency/mean", meaning="time average of requests in flight, whole run"),
    Definition(id="accept/pooled", meaning="1 + accepted drafts / verify steps, pooled", ours=True),
    Definition(
        id="accept/request-mean", meaning="mean over requests of 1 + accepted / steps", ours=True
    ),
    Definition(
        id="accept/lifetime",
        meaning="average of the server since its start, warm-up and other clients included",
    ),
    Definition(id="accept/chunk-size", meaning="mean tokens a chunk, from an in-process engine"),
    Definition(
        id="accept/golden", meaning="a published acceptance length for one draft length, pooled"
    ),
    Definition(id="accept/rate", meaning="accepted drafts / drafted tokens"),
)  # fmt: skip

DEFINITIONS: dict[str, Definition] = {definition.id: definition for definition in _ALL}
