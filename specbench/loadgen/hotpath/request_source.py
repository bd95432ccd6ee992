"""The requests of a drive, in order, each built before it is needed."""

import itertools
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from specbench.backends.backend import Ask, Backend
from specbench.backends.products import backend_for
from specbench.errors import InputError
from specbench.loadgen.hotpath.endpoint import Endpoint
from specbench.loadgen.hotpath.exchange import Exchange
from specbench.loadgen.schedule import Share
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import Api, LoadSpec, Prompt, RequestRecord


class PreparedRequest(NamedTuple):
    """A request ready to be sent, and the row that it will become."""

    record: RequestRecord
    request: bytes
    backend: Backend
    api: Api
    keep_text: bool

    def begin(self, origin_ns: int) -> Exchange:
        """Begin the exchange, with times relative to the drive's start."""
        reader = self.backend.reader(self.api, self.record, keep_text=self.keep_text)
        return Exchange(self.record, self.request, reader, origin_ns=origin_ns)


class RequestSource:
    """Builds the exchanges of one share of a load, `ahead` of their sending.

    The prompts file is read line by line and again from its start, never held: measured request i
    of the whole drive takes prompt i modulo their number, so that as many requests as prompts ask
    each once. Each pass through them has its own salt, and warm-up has, so that no repeat finds
    its prefix cached. Raises InputError for a file that cannot serve.
    """

    def __init__(
        self, load: LoadSpec, share: Share, endpoint: Endpoint, *, drive_id: str, ahead: int
    ) -> None:
        self._load = load
        self._backend = backend_for(load.target.engine)
        self._share = share
        self._endpoint = endpoint
        self._drive_id = drive_id
        self._ahead = ahead
        self._ready: deque[PreparedRequest] = deque()
        self._prompts = enumerate(_ordered(load))
        self.origin_ns = 0
        total = load.stop.requests
        self.limit = None if total is None else share.count(load.warmup_requests + total)
        self.built = 0
        self.fill()

    @property
    def full(self) -> bool:
        """Whether nothing is to be built now."""
        exhausted = self.limit is not None and self.built >= self.limit
        return exhausted or len(self._ready) >= self._ahead

    def fill(self) -> None:
        """Build as many as are wanted ahead."""
        while not self.full:
            self.build()

    def build(self) -> None:
        """Build one."""
        for index, (number, prompt) in self._prompts:
            if index % self._share.of == self._share.index:
                self._ready.append(self._draft(index, number, prompt))
                self.built += 1
                return

    def take(self) -> Exchange | None:
        """Give the next exchange; None when all requests asked for were given."""
        if not self._ready and not self.full:
            self.build()
        if not self._ready:
            return None
        return self._ready.popleft().begin(self.origin_ns)

    def _draft(self, index: int, number: int, prompt: Prompt) -> PreparedRequest:
        load, warm = self._load, index < self._load.warmup_requests
        rid = f"sb-{self._drive_id}-{index}"
        record = RequestRecord(
            rid=rid,
            prompt_id=prompt.prompt_id,
            category=prompt.category,
            prompt_pass=number,
            phase="warmup" if warm else "measured",
            worker=self._share.index,
            max_tokens=prompt.max_tokens or load.sampling.max_tokens,
        )
        salt = f"{load.salt}.{'w' * warm}{number}" if load.salt else ""
        ask = Ask(
            prompt=prompt,
            sampling=load.sampling,
            api=load.target.api,
            model=load.target.model,
            rid=rid,
            salt=salt,
            ids=load.keep_text,
        )
        request = self._endpoint.request(self._backend.request(ask).body, rid)
        keep = load.keep_text or (not warm and prompt.prompt_id in load.keep_text_of)
        return PreparedRequest(record, request, self._backend, load.target.api, keep)


def _ordered(load: LoadSpec) -> Iterator[tuple[int, Prompt]]:
    """Give the prompts of a drive, warm-up first, each with the number of its pass."""
    path, own = Path(load.prompts_path), load.warmup_prompts
    warm = _cycle(path, 0, own) if own else _cycle(path, 0, None)
    yield from itertools.islice(warm, load.warmup_requests)
    yield from _cycle(path, own, None)


def _cycle(path: Path, first: int, end: int | None) -> Iterator[tuple[int, Prompt]]:
    """Read prompts `first` to `end` for ever. Raises InputError with the line."""
    decoder = msgspec.json.Decoder(Prompt)
    for number in itertools.count():
        found = 0
        try:
            with path.open("rb") as file:
                lines = (line for line in enumerate(file, 1) if line[1].strip())
                for at, line in itertools.islice(lines, first, end):
                    found += 1
                    yield number, _prompt(decoder, line, f"{path}:{at}")
        except OSError as error:
            raise InputError(
                f"cannot read the prompts: {error.strerror}", where=str(path)
            ) from None
        if not found:
            raise InputError("the prompts file holds no prompt", where=str(path))


def _prompt(decoder: msgspec.json.Decoder[Prompt], line: bytes, where: str) -> Prompt:
    try:
        return decoder.decode(line)
    except NOT_JSON as error:
        raise InputError(f"not a prompt: {why_not(error)}", where=where) from None
