"""What the server is, what it can do, and whether there is anything to verify."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from specbench.backends.backend import Quirks
from specbench.backends.products import backend_for
from specbench.verify.client import Client, Refused
from specbench.verify.levels import Level, level_of
from specbench.verify.wire import Ask

RANKS = 20
# A vocabulary bound that no model exceeds today; a larger one only weakens one bet.
VOCAB_BOUND = 2**18
_SENTENCE = "The quick brown fox jumps over the lazy dog."
PROMPT_TOKENS = 24
"""Ids of a prompt that the server wrote itself, where it tokenises nothing."""
LEAST_CONTEXT = 4096
"""Tokens that a server is taken to hold which does not say."""


@dataclass(frozen=True, slots=True)
class Server:
    """Facts of the handshake. `speculative` None: the server does not say.

    `abilities` is a subset of `levels.ABILITIES`: each was tried, none is assumed;
    `identity` changes when the process is another one; `simulated` is how the server says that its
    acceptance is an input, empty where it does not.
    """

    product: str
    version: str
    model: str
    speculative: bool | None
    algorithm: str
    draft_tokens: int | None
    context: int
    running_cap: int | None
    thresholds: tuple[float, float]
    device: str
    identity: str
    busy: int
    quirks: Quirks = field(default_factory=Quirks)
    abilities: frozenset[str] = frozenset()
    vocab: int = VOCAB_BOUND
    facts: tuple[tuple[str, Any], ...] = ()
    simulated: str = ""

    @property
    def level(self) -> Level:
        """How strong the evidence can be that this server lets anybody gather."""
        return level_of(self.abilities)


def shake_hands(client: Client) -> Server:
    """Identify the server and try each ability once; sets what the client must know of it.

    Raises:
        HostError: nobody answers.
        InputError: the server wants an API key.

    """
    facts = client.identify()
    single, accumulated = facts.thresholds
    server = Server(
        product=facts.product,
        version=facts.version or "",
        model=facts.served_name or facts.model or "",
        speculative=facts.speculative,
        algorithm=facts.algorithm or "",
        draft_tokens=facts.draft_tokens,
        context=facts.context or LEAST_CONTEXT,
        running_cap=facts.running_cap,
        thresholds=(
            1.0 if single is None else single,
            1.0 if accumulated is None else accumulated,
        ),
        device=facts.device,
        identity=facts.process_identity,
        busy=client.running() or 0,
        quirks=backend_for(facts.product).quirks,
        vocab=facts.vocab or VOCAB_BOUND,
        facts=tuple(facts.shown.items()),
        simulated=facts.simulated,
    )
    client.model = server.model
    client.draft_tokens = server.draft_tokens
    return _try_abilities(client, server)


def identity(client: Client) -> str:
    """Return what tells one process from the next; empty where the server gives nothing."""
    return client.identify().process_identity


def _try_abilities(client: Client, server: Server) -> Server:
    found: set[str] = set()
    try:
        ids = client.tokenise(_SENTENCE)
        found.add("tokenise")
    except Refused:
        try:
            ids = client.continuation(_SENTENCE, PROMPT_TOKENS)
        except Refused:
            return server
    if not _works(client, Ask(ids=ids, max_tokens=1), lambda c: len(c[0].ids) == 1):
        return server
    found.add("ids")
    if _can_score(client, ids):
        found.add("score")
    plain = Ask(ids=ids, max_tokens=2)
    likeliest = replace(plain, max_tokens=1, logprobs=True, top=RANKS)
    if _works(client, likeliest, lambda c: len(c[0].top_ids) == 1 and len(c[0].top_ids[0]) > 1):
        found.add("next_scores")
    if _works(client, replace(plain, logprobs=True), lambda c: len(c[0].logp) == len(c[0].ids)):
        found.add("logprobs")
    if _works(client, replace(plain, n=2, temperature=1.0), lambda c: len(c) == 2):
        found.add("n")
    biased = replace(plain, max_tokens=1, logit_bias=((ids[0], 100.0),))
    if _works(client, biased, lambda c: c[0].ids[:1] == ids[:1]):
        found.add("logit_bias")
    if client.flush():
        found.add("flush")
    return replace(server, abilities=frozenset(found))


def _can_score(client: Client, ids: tuple[int, ...]) -> bool:
    """Try with no generated token, then with one: some servers refuse to generate none."""
    for least_new in (0, 1):
        client.least_new = least_new
        try:
            out = client.score(ids, 2, RANKS)
        except Refused:
            continue
        if len(out.top_ids) == len(out.ids) and all(len(row) >= 2 for row in out.top_ids):
            return True
    return False


def _works(client: Client, ask: Ask, check: Any) -> bool:
    try:
        return bool(check(client.generate(ask)))
    except Refused:
        return False
