"""Counts that cannot be true: identities between sources that do not know of each other."""

from collections.abc import Iterable, Sequence

from specbench.model.columns import COLUMNS
from specbench.model.load import RequestRecord

SPARE_CHUNKS = 2
"""A server may send what it held back (half a character, a stop string) in a chunk of its own."""

SPARE_TOKENS = 16
"""Tokens of a template (ends, channels, thinking marks) that no text shows."""

SURPLUS = 0.10
"""Of the tokens that the counters speak of: a last step cut at the end explains less."""

EXPLAINED = 0.25
"""Up to that share of the counters, drafts behind the ends explain a surplus; beyond it the tokens
of a step are off by more than a reader would forgive, however well it is explained."""

TOKENS = tuple(column.name for column in COLUMNS if "tokens" in column.rests_on)
STEPS = tuple(column.name for column in COLUMNS if "steps" in column.rests_on)


def untrue(
    records: Iterable[RequestRecord], *, speculative: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Hold the counts of a trial's finished requests against each other.

    Gives what contradicts what, by a code each, and the names of the columns that rest on it.
    """
    finished = list(records)
    wrong = [(record, why) for record in finished if (why := wrong_count(record))]
    found: dict[str, str] = {}
    columns: dict[str, None] = {}
    if wrong:
        record, why = wrong[0]
        found["tokens"] = f"{len(wrong)} of {len(finished)} replies: {why} ({record.rid})"
        columns |= dict.fromkeys((*TOKENS, *STEPS))
    counters = _plain(finished) if not speculative else _accepted(finished)
    if counters:
        found["counters"] = counters
        columns |= dict.fromkeys(STEPS)
        if not speculative:
            columns |= dict.fromkeys(TOKENS)
    return found, tuple(columns)


def wrong_count(record: RequestRecord) -> str:
    """Say why the token count of one reply cannot be true; empty where nothing speaks against it.

    Each chunk with text holds a token at least, no token is less than a byte of text, and no
    request is given more tokens than it asked for.
    """
    if record.reason == "bad_count":
        return record.detail
    tokens, chunks, asked = record.output_tokens, len(record.chunk_ns), record.max_tokens
    if tokens is None:
        return ""
    shown = record.text_bytes if record.finish_reason == "stop" else None
    problems = {
        f"{tokens} tokens were counted": tokens < 0,
        f"{tokens} tokens were counted, and {chunks} chunks held text": (
            chunks > tokens + SPARE_CHUNKS
        ),
        f"{tokens} tokens were counted, and {asked} were asked for": (
            asked is not None and tokens > asked
        ),
        f"{tokens} tokens were counted, and {shown} bytes of text came": (
            shown is not None and tokens > shown + SPARE_TOKENS
        ),
    }
    return next((problem for problem, holds in problems.items() if holds), "")


def _plain(finished: Sequence[RequestRecord]) -> str:
    """Hold an arm that is declared plain against the counters in its replies."""
    speculated = sum(
        bool(r.spec_accepted or r.spec_proposed or (r.spec_verify_ct and not _derived(r)))
        for r in finished
    )
    if not speculated:
        return ""
    return (
        f"the arm is declared to decode plainly, and {speculated} of {len(finished)} replies"
        " carry counters of speculation"
    )


def _accepted(finished: Sequence[RequestRecord]) -> str:
    """Hold steps and accepted drafts against the tokens: each step emits one beside them.

    A server that counts only the steps that had a draft, or none, may count fewer and never more.
    """
    counted = [r for r in finished if r.spec_accepted is not None and r.output_tokens is not None]
    said = [(_steps_told(r) or 0) + (r.spec_accepted or 0) for r in counted]
    came = [max(0, (r.output_tokens or 0) - 1) for r in counted]
    emitted = sum(
        max(number, tokens) if _derived(record) else number
        for record, number, tokens in zip(counted, said, came, strict=True)
        if number
    )
    tokens = sum(tokens for number, tokens in zip(said, came, strict=True) if number)
    # Drafts of the last step that were accepted past the end are counted and not sent.
    unsent = sum(_longest(record) for record, number in zip(counted, said, strict=True) if number)
    slack = SURPLUS * max(emitted, tokens)
    if -slack <= emitted - tokens <= max(slack, min(unsent, EXPLAINED * emitted)):
        return ""
    return (
        f"verify steps and accepted drafts make {emitted} tokens, and {tokens} came after the"
        " first of each reply"
    )


def _longest(record: RequestRecord) -> int:
    """Give the most drafts that one step of a reply accepted; 0 where no histogram says it."""
    return max((k for k, count in enumerate(record.spec_histogram or ()) if count), default=0)


def _steps_told(record: RequestRecord) -> int | None:
    """Give the steps that the server itself counted: all, or only those that had a draft."""
    return record.spec_drafted_steps if _derived(record) else record.spec_verify_ct


def _derived(record: RequestRecord) -> bool:
    """Whether the steps follow from other counts: then a plain server has them too."""
    return record.spec_steps_of == "derived"
