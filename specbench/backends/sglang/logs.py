"""The grammar of SGLang's log: one line in, at most one event out. No input or output.

Written for 0.4.6 to 0.5.23. Milestones differ between versions, algorithms and devices, so none is
ever required and unknown lines mean nothing. Lines of other servers pass through unread.
"""

import re

import msgspec

from specbench.backends.backend import BatchLine, LogEvent, Notice, Ready
from specbench.model.service import LoadProgress, Phase

_PREFIX = re.compile(
    r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?P<rank>(?: (?:DP|TP|PP|EP|CP)\d+)*)\] ?"
)
_TQDM = re.compile(r"(?P<percent>\d{1,3})%(?: Completed)?\s*\|.*?(?P<done>\d+)/(?P<all>\d+)\b")
_DECODE = re.compile(r"^(?P<kind>Prefill|Decode) batch(?: \[\d+\])?[.,]\s*(?P<pairs>.*)$")
_PAIR = re.compile(r"\s*(?P<key>[^:,]+(?:\([^)]*\))?)\s*:\s*(?P<value>[^,]*)")

_READY = "The server is fired up and ready to roll!"

# In the order of a load (0.5.23); the first that matches counts.
_MILESTONES: tuple[tuple[str, Phase], ...] = (
    (r"^server_args=|^Init (?:torch distributed|parallel) (?:begin|ends)", "starting"),
    (r"^Load weight begin", "weights"),
    (r"Loading \w+ checkpoint shards|Multi-thread loading shards|^Load weight end", "weights"),
    (r"^KV Cache is allocated|^Memory pool end|^Memory baseline taken", "kv_cache"),
    (r"^Running FlashInfer autotune|^FlashInfer autotune completed", "autotune"),
    (r"^Capture draft (?:\w+ )?(?:CUDA|cuda) graph (?:begin|end)", "draft"),
    (r"^Capture (?:[\w ]+ )?(?:CUDA|cuda|cpu|npu) graph (?:begin|end)", "graphs"),
    (r"Capturing (?:batches|num tokens)", "graphs"),
    (r"^max_total_num_tokens=|^Engine startup timings", "binding"),
    (r"Uvicorn running on|Application startup complete|Started server process", "warmup"),
)
_COMPILED = tuple((re.compile(pattern), phase) for pattern, phase in _MILESTONES)

_NOTICES: tuple[tuple[str, str], ...] = (
    ("running_requests_capped", "Max running requests is reset to 48 for speculative decoding"),
    ("greedy_fallback", "falling back to greedy argmax verification"),
    ("distribution_not_preserved", "The requested sampling distribution will not be preserved"),
    ("draft_tokens_adjusted", "speculative_num_draft_tokens is adjusted to"),
    ("steps_forced", "DFLASH requires speculative_num_steps"),
    ("retraction", "KV cache pool is full. Retract requests"),
    ("streaming_backlog", "Streaming backlog:"),
    ("invalid_tree", "WARNING: invalid eagle tree!!!"),
)


def message_of(line: str) -> tuple[str, str]:
    """Split a line into the rank prefix ("TP0", or "") and the message without its time."""
    match = _PREFIX.match(line)
    if match is None:
        return "", line.strip()
    return match["rank"].strip(), line[match.end() :].strip()


def is_stamped(line: str) -> bool:
    """Whether a line starts with SGLang's time: tracebacks and progress bars do not."""
    return _PREFIX.match(line) is not None


def read_line(line: str) -> LogEvent | None:
    """Read one line; None for a line that says nothing about loading or about measuring."""
    _, message = message_of(line)
    if _READY in message:
        return Ready()
    for name, text in _NOTICES:
        if text in message:
            return Notice(name=name, text=message[:500])
    batch = _DECODE.match(message)
    if batch:
        return BatchLine(kind=batch["kind"].lower(), values=read_pairs(batch["pairs"]))
    for pattern, phase in _COMPILED:
        if pattern.search(message):
            return LoadProgress(phase=phase, fraction=_fraction(message), detail=_detail(message))
    return None


def read_pairs(text: str) -> dict[str, float | str]:
    """Read `key: value, key: value`; a value that is no number stays text."""
    pairs: dict[str, float | str] = {}
    for match in _PAIR.finditer(text):
        value = match["value"].strip()
        try:
            pairs[match["key"].strip()] = float(value)
        except ValueError:
            pairs[match["key"].strip()] = value
    return pairs


class LoadTracker:
    """Follow one server's load through its lines: tells the draft model's load from the target's.

    The draft goes through the same milestones a second time, for each rank on its own.
    """

    def __init__(self) -> None:
        self._past_target: set[str] = set()

    def read(self, line: str) -> LogEvent | None:
        """Read the next line."""
        event = read_line(line)
        if not isinstance(event, LoadProgress):
            return event
        rank, message = message_of(line)
        # A progress bar has no prefix: it belongs to whoever loads at the moment.
        second_round = rank in self._past_target or (not is_stamped(line) and self._past_target)
        if message.startswith("Memory pool end"):
            self._past_target.add(rank)
        if second_round and event.phase in {"weights", "kv_cache"}:
            return msgspec.structs.replace(event, phase="draft")
        return event


def _fraction(message: str) -> float | None:
    bar = _TQDM.search(message)
    if bar and int(bar["all"]):
        return min(1.0, int(bar["done"]) / int(bar["all"]))
    if bar:
        return min(1.0, int(bar["percent"]) / 100)
    return 1.0 if re.search(r"\b(?:end|ends|completed)\b", message) else None


def _detail(message: str) -> str:
    bar = _TQDM.search(message)
    return f"{bar['done']} of {bar['all']}" if bar else message[:160]
