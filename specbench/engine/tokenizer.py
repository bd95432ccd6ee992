"""A byte-level pair-merging tokenizer: any text goes in, exactly that text comes out.

Identifiers 0..255 are the bytes themselves, then come the special tokens, then the merges in the
order in which they were learnt (Sennrich et al., 1508.07909, on bytes).
"""

import heapq
import re
from codecs import getincrementaldecoder
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Pair = tuple[int, int]

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|pad|>",
    "<|tool|>",
    "<|reserved|>",
)
FIRST_SPECIAL = 256
START_OF_TURN = FIRST_SPECIAL + 1
FIRST_MERGE = FIRST_SPECIAL + len(SPECIAL_TOKENS)

# Every character falls into exactly one alternative; lengths are bounded so that a hostile run of
# one letter costs linear time.
_PIECES = re.compile(r" ?[^\W\d_]{1,24}| ?\d{1,3}| ?[^\w\s]{1,8}|_{1,8}|\s{1,16}")
_SPECIALS = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL_TOKENS) + ")")
_CACHED_PIECES = 1 << 16


@dataclass(slots=True)
class Tokenizer:
    """Text to identifiers and back; see the module for the layout of the identifiers."""

    merges: tuple[Pair, ...]
    vocabulary: tuple[bytes, ...] = field(init=False, repr=False)
    special: Mapping[str, int] = field(init=False, repr=False)
    _ranks: dict[Pair, int] = field(init=False, repr=False)
    _pieces: dict[str, tuple[int, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        words = [bytes([value]) for value in range(256)]
        words += [token.encode() for token in SPECIAL_TOKENS]
        for left, right in self.merges:
            words.append(words[left] + words[right])
        self.vocabulary = tuple(words)
        self.special = {token: FIRST_SPECIAL + k for k, token in enumerate(SPECIAL_TOKENS)}
        self._ranks = {pair: FIRST_MERGE + k for k, pair in enumerate(self.merges)}
        self._pieces = {}

    @property
    def vocab_size(self) -> int:
        """Number of identifiers."""
        return len(self.vocabulary)

    @property
    def bos_id(self) -> int:
        """The token that stands before every document."""
        return self.special["<|endoftext|>"]

    @property
    def eos_id(self) -> int:
        """The token that ends an assistant's turn."""
        return self.special["<|im_end|>"]

    def is_special(self, token: int) -> bool:
        """Whether a token is a mark of the template and no text."""
        return FIRST_SPECIAL <= token < FIRST_MERGE

    def encode(self, text: str, *, specials: bool = True) -> list[int]:
        """Return the identifiers of a text; lone surrogates become question marks.

        With `specials` the spelled-out special tokens are recognised, as Hugging Face tokenizers
        do; without it they are ordinary characters, so that a user's message cannot end its turn.
        """
        if not specials:
            return self._encode_plain(text)
        ids: list[int] = []
        for part in _SPECIALS.split(text):
            token = self.special.get(part)
            ids.extend(self._encode_plain(part) if token is None else (token,))
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Return the text of identifiers; incomplete UTF-8 shows as U+FFFD."""
        words = self.vocabulary
        raw = b"".join(words[i] for i in ids if not (skip_special and self.is_special(i)))
        return raw.decode("utf-8", errors="replace")

    def token_bytes(self, token: int) -> bytes:
        """Return the exact bytes of one token (a special token's are its spelling)."""
        return self.vocabulary[token]

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        r"""Return the prompt of a conversation, ending where the assistant is to speak.

        The template is ChatML: `<|im_start|>role\ncontent<|im_end|>\n` for each message.
        """
        ids: list[int] = []
        for message in messages:
            ids += self._turn(message["role"])
            ids += self.encode(message["content"], specials=False)
            ids += [self.eos_id, *self.encode("\n")]
        return ids + self._turn("assistant")

    def _turn(self, role: str) -> list[int]:
        return [START_OF_TURN, *self.encode(f"{role}\n", specials=False)]

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in _PIECES.findall(text):
            known = self._pieces.get(piece)
            if known is None:
                known = self._merge(piece.encode("utf-8", errors="replace"))
                if len(self._pieces) < _CACHED_PIECES:
                    self._pieces[piece] = known
            ids.extend(known)
        return ids

    def _merge(self, raw: bytes) -> tuple[int, ...]:
        ids = list(raw)
        while len(ids) > 1:
            merged, left, right = min(
                (self._ranks.get(pair, len(self.vocabulary)), *pair) for pair in pairwise(ids)
            )
            if merged == len(self.vocabulary):
                break
            ids = _replace(ids, (left, right), merged)
        return tuple(ids)


@dataclass(slots=True)
class TextStream:
    """Detokenises a stream: characters appear once all of their bytes have arrived."""

    tokenizer: Tokenizer
    skip_special: bool = True
    _decoder: object = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[int]) -> str:
        """Return the characters that these tokens complete."""
        return self._feed(ids, final=False)

    def finish(self) -> str:
        """Return what is left; bytes that will never be completed show as U+FFFD."""
        return self._feed((), final=True)

    def _feed(self, ids: Iterable[int], *, final: bool) -> str:
        tokenizer = self.tokenizer
        kept = (i for i in ids if not (self.skip_special and tokenizer.is_special(i)))
        raw = b"".join(tokenizer.vocabulary[i] for i in kept)
        return str(self._decoder.decode(raw, final))  # type: ignore[attr-defined]  # codec object


def learn_merges(texts: Iterable[str], vocab_size: int) -> tuple[Pair, ...]:
    """Learn byte-pair merges until the vocabulary has `vocab_size` identifiers.

    Ties go to the smaller pair, so the result depends on the texts alone.
    """
    pieces = Counter(piece for text in texts for piece in _PIECES.findall(text))
    words = [list(piece.encode()) for piece in pieces]
    weights = list(pieces.values())
    counts: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            counts[pair] += weights[index]
            places[pair].add(index)
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while len(merges) < vocab_size - FIRST_MERGE and heap:
        negative, best = heapq.heappop(heap)
        if counts[best] != -negative:
            continue  # out of date: the present count is in the heap as well
        if negative > -2:
            break
        merged = FIRST_MERGE + len(merges)
        merges.append(best)
        changed: set[Pair] = set()
        for index in places.pop(best):
            old, new = words[index], _replace(words[index], best, merged)
            for pair in pairwise(old):
                counts[pair] -= weights[index]
            for pair in pairwise(new):
                counts[pair] += weights[index]
                places[pair].add(index)
            changed.update(pairwise(old), pairwise(new))
            words[index] = new
        for pair in changed:
            heapq.heappush(heap, (-counts[pair], pair))
    return tuple(merges)


def _replace(ids: list[int], pair: Pair, merged: int) -> list[int]:
    out: list[int] = []
    position = 0
    while position < len(ids):
        if position + 1 < len(ids) and (ids[position], ids[position + 1]) == pair:
            out.append(merged)
            position += 2
        else:
            out.append(ids[position])
            position += 1
    return out
