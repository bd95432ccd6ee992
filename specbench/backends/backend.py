"""What a server product is to specbench: one protocol, without input or output.

A backend turns what is asked into a command line or an HTTP request, and answers and log lines into
typed facts. It opens nothing; `client` sends its requests. Where a product lacks something, the
method says None.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from specbench.backends.scored import Answer, Scored
from specbench.model.facts import Finding, ServerFacts
from specbench.model.host import Address
from specbench.model.load import Api, Prompt, Reason, RequestRecord, Sampling
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure, LoadProgress

Verb = Literal[
    "alive",
    "health",
    "info",
    "model",
    "models",
    "version",
    "metrics",
    "running",
    "flush",
    "abort",
    "canary",
    "profile_start",
    "profile_stop",
]
"""What can be asked of a running server beside generation."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a server, as a value. `body` is JSON; empty for none.

    `otherwise` is sent where the server has no such endpoint (404 or 405): an older name.
    """

    path: str
    method: Literal["GET", "POST"] = "GET"
    body: bytes = b""
    timeout_s: float = 10.0
    otherwise: "HttpRequest | None" = None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One generation request, complete.

    `rid` names it to the server, `salt` keeps its prefix apart from others'. `ids` wants the token
    ids of the output, `logprobs` their log-probabilities, `top` those of the
    likeliest tokens beside each; `bias` adds to logits by token id.
    """

    prompt: Prompt
    sampling: Sampling
    api: Api = "chat"
    model: str = ""
    rid: str = ""
    salt: str = ""
    stream: bool = True
    ids: bool = False
    logprobs: bool = False
    top: int = 0
    n: int = 1
    bias: tuple[tuple[int, float], ...] = ()


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a server over several nodes; the ranks meet at ADDRESS:PORT."""

    index: int
    count: int
    meeting_point: str


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """A program that only parses a command line: exit status 2 says that it is refused."""

    argv: tuple[str, ...]
    input: bytes
    env: dict[str, str] = {}


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on running requests that every arm is given, since the server would choose its own.

    `why` completes the sentence that tells the user.
    """

    flag: str
    at_least: int
    why: str


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a product where its losslessness is judged; each text ends up in a verdict.

    Gaps are documented relaxations under speculation: of min_p, of the order of top_k and top_p, of
    logit_bias. `greedy_gap` says where it verifies greedily above temperature 0.
    `streams_show_rounds`: its counters are off by default, its chunks show the rounds.
    `fragile_top_k`: a top_k in a verify step may end the server, so what has none comes first.
    `withholds_split_characters`: tokens that end inside a character are counted, but not given.
    `scores_afresh`: scoring never reads the prefix cache. `one_answer`: a request
    has one answer only (n = 1). `sampling_faults` maps the beginning of a
    version to a fault of it that explains wrong sampling.
    """

    min_p_gap: str = ""
    composition_gap: str = ""
    bias_gap: str = ""
    penalty_gap: str = ""
    greedy_gap: str = ""
    streams_show_rounds: bool = False
    fragile_top_k: bool = False
    scores_afresh: bool = False
    withholds_split_characters: bool = False
    one_answer: bool = False
    sampling_faults: dict[str, str] = {}


class RecordedValues(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a product's recorded values where two launches are compared: patterns.

    A column is `server.` and the server's own name for the value, or `flag.` and a flag. `volatile`
    ones differ from launch to launch of one server; `capacity` is measured at each start; `forced`
    ones follow from the algorithm where the arms differ in it, `lossy` ones never do, since they
    change what is accepted; `caps` bound the requests that run at once. Values below `state` only
    repeat the argument of the same name, unless they differ from it.
    """

    volatile: tuple[str, ...] = ()
    capacity: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    state: str = ""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A line that must be recorded although nothing failed: a silent cap, a greedy fall-back."""

    name: str
    text: str


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The server says that it is ready. A hint only: a server on a stolen port says it too."""


class BatchLine(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler's report: `values` are its key: value pairs, numbers where they are numbers."""

    kind: str
    values: dict[str, float | str]


LogEvent = LoadProgress | Notice | Ready | BatchLine


class LogReader(Protocol):
    """Follows the log of one server, line by line."""

    def read(self, line: str) -> LogEvent | None:
        """Read the next line; None for one that says nothing about loading or measuring."""
        ...

    def is_fatal(self, line: str) -> bool:
        """Whether a line alone settles that the server has failed."""
        ...


class ReplyReader(Protocol):
    """Reads one reply into its record: SSE payloads or a whole body, then `finish`.

    `failure` is the first thing that could not be understood; nothing is read after it. `done` says
    that the server's own end was seen.
    """

    record: RequestRecord

    @property
    def failure(self) -> tuple[Reason, str] | None:
        """The first thing that could not be understood."""
        ...

    @property
    def done(self) -> bool:
        """Whether the server's own end was seen."""
        ...

    def events(self, payloads: list[bytes], stamps_ns: list[int]) -> None:
        """Read SSE payloads in order, each with its arrival."""
        ...

    def event(self, payload: bytes, stamp_ns: int) -> None:
        """Read one SSE payload, or a whole reply that came as one JSON document."""
        ...

    def finish(self) -> None:
        """Settle counts, hash and chunk times; contradictions become `bad_count`."""
        ...


class Backend(Protocol):
    """One server product. `paths` are its generation endpoints, by API.

    `speaks` lists what is asked to learn who the server is; `read` says what of each answer is
    recorded, and all of it together is the `info` of the other methods. `module` is the Python
    package of the server, None where it is a program of its own. A command line begins with `head`,
    in which "{python}" stands for the host's Python. `pin` None: no bound is needed.
    `name_flag` names a speculative algorithm to the server, `variables` are set in the environment
    of every launch. `recorded` is what comparisons know of its values. `id_api` takes and gives
    token ids; None: no API does.
    """

    name: str
    title: str
    paths: Mapping[Api, str]
    speaks: tuple[Verb, ...]
    module: str | None
    head: tuple[str, ...]
    pin: Pin | None
    id_api: Api | None
    quirks: Quirks
    recorded: RecordedValues
    name_flag: str
    variables: Mapping[str, str]

    def command(
        self, spec: LaunchSpec, address: Address, head: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Write the command line; `head` replaces its beginning. None: it is never started."""
        ...

    def rank_flags(self, rank: Rank) -> tuple[tuple[str, Level], ...] | None:
        """Give the flags that make a process one rank of many; None: one node only."""
        ...

    def preflight(self, argv: Sequence[str]) -> Preflight | None:
        """Give a program that judges a command line; None where it is not the product's own."""
        ...

    def invalid_reason(self, spec: LaunchSpec, version: str | None = None) -> str | None:
        """Say in one sentence why a server of that version cannot run a launch, or None."""
        ...

    def log_reader(self) -> LogReader:
        """Make a reader for the log of one server."""
        ...

    def diagnose(
        self, lines: Sequence[str], *, exit_status: int | None = None
    ) -> LoadFailure | None:
        """Explain a failure by the last lines; None where nothing has failed."""
        ...

    def control(self, verb: Verb, *, model: str = "") -> HttpRequest | None:
        """Give the request that does something, or None where the product cannot."""
        ...

    def read(self, verb: Verb, body: bytes) -> dict[str, Any]:
        """Say what of an answer to one of `speaks` is recorded."""
        ...

    def recognises(self, models: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Whether a server with these models, or this answer to `info`, is of this product."""
        ...

    def facts(self, info: Mapping[str, Any], model: Mapping[str, Any]) -> ServerFacts:
        """Read the server's own words."""
        ...

    def findings(
        self,
        spec: LaunchSpec,
        info: Mapping[str, Any],
        model: Mapping[str, Any],
        *,
        concurrency: int | None = None,
    ) -> tuple[Finding, ...]:
        """List every way in which the running server differs from what was asked for."""
        ...

    def contamination(self, environment: Mapping[str, Any]) -> tuple[Finding, ...]:
        """List the variables of an environment that falsify a measurement."""
        ...

    def running(self, body: bytes) -> int | None:
        """Read the number of running requests out of the answer to `running`."""
        ...

    def request(self, ask: Ask) -> HttpRequest:
        """Build a generation request. Raises InputError where the API cannot carry it."""
        ...

    def reader(self, api: Api, record: RequestRecord, *, keep_text: bool) -> ReplyReader:
        """Make the reader of one reply."""
        ...

    def answers(self, ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
        """Read whole answers by token ids: SSE payloads, or one body. Raises Malformed."""
        ...

    def score(
        self, ids: Sequence[int], start: int, top: int, *, model: str, least_new: int = 0
    ) -> HttpRequest | None:
        """Ask for the target's conditionals at ids[start:], by prefill.

        `least_new` is 0, or 1 for servers that refuse to generate nothing.
        """
        ...

    def scores(self, ids: Sequence[int], start: int, body: bytes) -> Scored:
        """Read the answer to `score`. Raises Malformed."""
        ...

    def tokenise(self, text: str, *, model: str) -> HttpRequest | None:
        """Ask for the ids of a text, as the server itself tokenises it."""
        ...

    def token_ids(self, body: bytes) -> tuple[int, ...]:
        """Read the answer to `tokenise`. Raises Malformed."""
        ...
