"""`verify_server`: the whole battery against one running server, as an iterator of events."""

from __future__ import annotations

import time
from collections.abc import Iterator

from specbench.errors import InputError, ServiceError
from specbench.model.verdict import VerdictDocument
from specbench.verify.client import Client, Refused
from specbench.verify.conclusion import Conclusion, conclude, without_battery
from specbench.verify.concurrency_watch import Watch
from specbench.verify.events import (
    VerdictReady,
    VerifyEvent,
    VerifyNotice,
)
from specbench.verify.handshake import PROMPT_TOKENS, Server, identity, shake_hands
from specbench.verify.levels import LEVELS, Level, costs
from specbench.verify.one_token import OneTokenScores
from specbench.verify.options import VerifyOptions
from specbench.verify.plan import Samples, spoken_stages, stages
from specbench.verify.prompts import Prompts, Tokenise, load_prompts
from specbench.verify.reference import (
    Reference,
    different_target,
    read_reference,
    warnings,
)
from specbench.verify.session import Control, Live, Scorer, Session, Source
from specbench.verify.stage_runs import run_stages
from specbench.verify.statistics.logprob_gap import margins_from_control
from specbench.verify.statistics.positive_control import blind_spots, blind_spots_of_draws
from specbench.verify.statistics.tokens import join

_NO_IDS = (
    "the server gives no token ids, so no context can be asked for again; another of its endpoints "
    "may"
)


def verify_server(url: str, options: VerifyOptions) -> Iterator[VerifyEvent]:
    """Verify a running server; the last event is `VerdictReady`.

    Raises:
        HostError: nobody answers at `url`.
        InputError: an API key is needed, or the reference cannot be used.

    """
    reference = read_reference(options.reference) if options.reference else None
    if reference is not None and reference.holds_outputs:
        raise InputError(
            "this file holds outputs of a speculative server: a plain server can score them, but "
            "they are no reference",
            where=str(options.reference),
            hint="record the reference on a server without speculation",
        )
    client = Client(url, options.api_key_env, options.concurrency, options.timeout_s)
    try:
        yield from run_battery(client, options, reference)
    finally:
        client.close()


def verdict_of(url: str, options: VerifyOptions) -> VerdictDocument:
    """Run `verify_server` to its end and return the verdict."""
    for event in verify_server(url, options):
        if isinstance(event, VerdictReady):
            return event.document
    raise AssertionError("a verification always ends with a verdict")


def open_session(
    client: Client,
    server: Server,
    options: VerifyOptions,
    level: Level = "scores",
    *,
    answers: Source | None = None,
    scores: Scorer | None = None,
    watch: Watch | None = None,
) -> Session:
    """Tokenise the prompts and gather what the stages share; `level` decides the sizes.

    Answers and scores are those of the running server, where no others are given. Outputs that are
    recorded to be scored later have the sizes of full scores.

    Raises:
        Refused: the server does not tokenise.

    """
    budget = options.plan.at(level)
    prompts = load_prompts(_tokeniser(client, server), server.context, max(budget.long, 1))
    watch = watch or Watch()
    one_token = level == "one_token_scores"
    return Session(
        client,
        server,
        prompts,
        budget,
        options.seed,
        answers or Live(client, watch),
        scores or (OneTokenScores(client) if one_token else client.score_all),
        watch,
        own=options.own,
    )


def _tokeniser(client: Client, server: Server) -> Tokenise:
    """Return what turns a text into a prompt: its ids, or those of the server's answer to it."""
    if "tokenise" in server.abilities:
        return client.tokenise
    return lambda text: client.continuation(text, PROMPT_TOKENS)


def run_battery(
    client: Client, options: VerifyOptions, reference: Reference | None = None
) -> Iterator[VerifyEvent]:
    """Verify over a client that is open already; the caller closes it."""
    start = time.monotonic()
    server = shake_hands(client)
    reason = nothing_to_test(server, options)
    if reason:
        yield VerdictReady(document=without_battery(server, *reason))
        return
    if server.running_cap:
        # No batch is ever larger there, so nothing above the cap needs a test.
        client.concurrency = min(client.concurrency, server.running_cap)
    if "ids" not in server.abilities:
        yield from _by_text(client, server, options)
        return
    session = open_session(client, server, options, server.level)
    yield from _notices(session, options.concurrency, reference)
    conclusion = Conclusion(session, options, reference)
    if reference is not None:
        conclusion.essential += [x for x in [_use_reference(session, reference)] if x]
    yield from run_stages(session, conclusion, stages(session, Samples()))
    check_run(session, conclusion)
    yield VerdictReady(document=conclude(conclusion, time.monotonic() - start))


def _by_text(client: Client, server: Server, options: VerifyOptions) -> Iterator[VerifyEvent]:
    """Ask what a text alone can show: it can convict, and never says that something holds."""
    start, watch = time.monotonic(), Watch()
    nothing = Prompts(chat=(), short=(), long=(), texts=(), turn=())
    session = Session(
        client, server, nothing, options.plan, options.seed, Live(client, watch),
        client.score_all, watch, own=options.own,
    )  # fmt: skip
    yield VerifyNotice(text=_first_words(session))
    for text in costs(server.abilities):
        yield VerifyNotice(text=text)
    conclusion = Conclusion(session, options, None, essential=[_NO_IDS])
    yield from run_stages(session, conclusion, spoken_stages(session))
    yield VerdictReady(document=conclude(conclusion, time.monotonic() - start))


def check_run(session: Session, conclusion: Conclusion) -> None:
    """Positive control on this very data, and whether the server is still the same process."""
    sampled = join(session.seen.sampled)
    greedy = join(session.seen.greedy)
    conclusion.essential += blind_spots(
        greedy,
        sampled,
        session.server.vocab,
        session.seed,
        session.control.margins,
        # Beyond the likeliest tokens a one-token request shows no score: garbage is seen less well.
        0.01 if session.price == 1 else 0.05,
    )
    if session.seen.verified_probes:
        conclusion.essential.append(
            f"{session.seen.verified_probes} one-token requests went through verification by the "
            "server's own count: they are no plain draws"
        )
    conclusion.essential += blind_spots_of_draws(session.seen.contexts, session.seed)
    try:
        if session.server.identity and identity(session.client) != session.server.identity:
            conclusion.essential.append("the server was restarted during the run")
        if session.client.running():
            conclusion.notes.append("other traffic was seen on the server after the run")
    except ServiceError as error:
        if not conclusion.cut_short:
            conclusion.essential.append(f"the server is gone at the end: {error.what}")


def nothing_to_test(server: Server, options: VerifyOptions) -> tuple[str, str] | None:
    """Return (verdict, reason) where the battery would be pointless."""
    if server.speculative is False:
        return "inconclusive", "speculation is off: nothing to verify"
    if server.simulated:
        return "inconclusive", (
            f"acceptance is simulated, so the text means nothing by design ({server.simulated}); "
            "start the server without it"
        )
    if server.thresholds != (1.0, 1.0) and not options.expect_lossy:
        single, acc = server.thresholds
        return "violated", (
            f"lossy by configuration: accept thresholds single={single:g}, acc={acc:g} (lossless "
            "needs 1.0 for both); --expect-lossy measures how much"
        )
    return None


def _use_reference(session: Session, reference: Reference) -> str:
    """Check the target against the reference and take its noise as control."""
    if session.server.level == "draws":
        session.seen.not_tested.append(
            "whether the target is the reference's, and its noise: this server gives no scores "
            "(record its outputs instead, and let a plain server score them)"
        )
        return ""
    try:
        problem = different_target(session, reference)
    except Refused as error:
        return f"the reference cannot be compared: {error}"
    if problem:
        return problem
    margins = margins_from_control(reference.regrets)
    session.control = Control(margins, reference.regrets, reference.gaps)
    return ""


def _notices(session: Session, asked: int, reference: Reference | None) -> Iterator[VerifyEvent]:
    server = session.server
    if server.busy:
        yield VerifyNotice(
            text=f"{server.busy} other requests are running: concurrency is not under control"
        )
    if server.running_cap == session.client.concurrency < asked:
        yield VerifyNotice(
            text=f"the server runs at most {server.running_cap} requests at a time: that is tested"
        )
    yield VerifyNotice(text=_first_words(session))
    for text in costs(server.abilities):
        yield VerifyNotice(text=text)
    scored = "score" in server.abilities
    if scored and "flush" not in server.abilities and not server.quirks.scores_afresh:
        yield VerifyNotice(text="the prefix cache cannot be emptied: scoring may reuse KV")
    if reference is None:
        yield VerifyNotice(text="no reference: lossless relative to this server's own prefill")
    else:
        for text in warnings(session, reference):
            yield VerifyNotice(text=f"reference: {text}")


def _first_words(session: Session) -> str:
    """Say what was found and what is to come, before anything is spent on it."""
    server = session.server
    method = server.algorithm or ("speculative" if server.speculative else "not said")
    return (
        f"algorithm {method}; evidence by {server.level.replace('_', ' ')}: "
        f"{LEVELS[server.level]}; at most {session.budget.limit} tokens"
    )
