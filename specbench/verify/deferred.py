"""Deferred scoring: the verdict of a server that is gone, by a plain server of the same target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from specbench.errors import InputError
from specbench.verify.battery import check_run, nothing_to_test
from specbench.verify.client import Client, Refused
from specbench.verify.conclusion import Conclusion, conclude, without_battery
from specbench.verify.events import VerdictReady, VerifyEvent, VerifyNotice
from specbench.verify.handshake import Server, shake_hands
from specbench.verify.options import VerifyOptions
from specbench.verify.plan import Samples
from specbench.verify.prompts import load_prompts
from specbench.verify.recorded_outputs import RecordedOutputs, read_recorded_outputs, unlimited
from specbench.verify.reference import Reference, different_target
from specbench.verify.session import Control, Session
from specbench.verify.stage_runs import run_stages
from specbench.verify.statistics.logprob_gap import margins_from_control
from specbench.verify.wire import Ask

# First tokens come from prefill on both sides, so hardly any may be impossible to the other.
_HARD_ALLOWED = 1
_SOFT_ALLOWED_PCT = 5.0


def score_recording(
    client: Client, options: VerifyOptions, reference: Reference
) -> Iterator[VerifyEvent]:
    """Judge recorded outputs by the scores of the server at `client`; the caller closes it.

    Raises:
        InputError: the server speculates itself, does not score, or the recording is not usable.

    """
    start = time.monotonic()
    recorded, scoring = read_recorded_outputs(reference), shake_hands(client)
    _check_scoring(client, scoring)
    reason = nothing_to_test(recorded.server, options)
    if reason:
        yield VerdictReady(document=without_battery(recorded.server, *reason))
        return
    session = _session(client, scoring, recorded, options)
    yield VerifyNotice(
        text=f"the verdict is that of the recorded server (version {recorded.server.version}, "
        f"{recorded.server.algorithm or 'speculative'}); the one at {client.url} scores its outputs"
    )
    conclusion = Conclusion(session, options, reference, scored_by=dict(scoring.facts))
    conclusion.notes.append(f"recorded outputs, scored by the plain server at {client.url}")
    untrusted = _other_target(session, recorded, scoring) or _control(session)
    if untrusted:
        yield VerdictReady(document=without_battery(recorded.server, "inconclusive", untrusted))
        return
    conclusion.essential += [recorded.cut] if recorded.cut else []
    conclusion.cut_short = bool(recorded.cut)
    samples = Samples()
    yield from run_stages(session, conclusion, recorded.stages(session, samples))
    check_run(session, conclusion)
    yield VerdictReady(document=conclude(conclusion, time.monotonic() - start))


def _check_scoring(client: Client, scoring: Server) -> None:
    if scoring.speculative:
        raise InputError(
            "the recording holds outputs of a speculative server, and the server that is to score "
            "them speculates as well",
            where=client.url,
            hint="give the URL of a plain server of the same target; to verify the running server "
            "itself, record the reference on a plain one",
        )
    if "score" not in scoring.abilities:
        raise InputError(
            "this server gives no prompt log-probabilities, so it cannot score recorded outputs",
            where=client.url,
            hint="a server with log-probabilities of a prompt is needed",
        )


def _session(
    client: Client, scoring: Server, recorded: RecordedOutputs, options: VerifyOptions
) -> Session:
    """Return a session that asks as the recorded server was asked, and scores on the other."""
    client.concurrency = int(recorded.reference.manifest["concurrency"])
    both = recorded.server.abilities & scoring.abilities & {"logit_bias"}
    abilities = (recorded.server.abilities & {"ids", "logprobs", "n"}) | both | {"score"}
    server = replace(
        recorded.server, identity="", abilities=abilities | (scoring.abilities & {"flush"})
    )
    then = unlimited(replace(options, budget=recorded.reference.manifest["budget"]))
    return Session(
        client,
        server,
        recorded.prompts,
        then.plan,
        options.seed,
        recorded.answer,
        client.score_all,
        recorded.watch,
        to_replay=recorded.tokens,
    )


def _other_target(session: Session, recorded: RecordedOutputs, scoring: Server) -> str:
    """Say why the scoring server does not hold the recorded server's target, or nothing."""
    ours = load_prompts(session.client.tokenise, scoring.context, 1)
    if (ours.texts, ours.chat, ours.short) != (
        recorded.prompts.texts,
        recorded.prompts.chat,
        recorded.prompts.short,
    ):
        return "the outputs were recorded with another tokeniser (equal texts, other token ids)"
    if recorded.reference.texts:
        try:
            return different_target(session, recorded.reference)
        except Refused as error:
            return f"the target cannot be compared: {error}"
    return _strange_first_tokens(session, recorded)


def _strange_first_tokens(session: Session, recorded: RecordedOutputs) -> str:
    """Compare greedy first tokens, for recordings of servers that could not score texts."""
    pairs = recorded.first_tokens()
    if not pairs:
        return "the recording holds no first tokens to know its target by"
    regret = session.score(pairs).regret
    hard = int((regret > session.control.margins.hard).sum())
    soft = int((regret > session.control.margins.soft).sum())
    if hard <= _HARD_ALLOWED and 100 * soft <= _SOFT_ALLOWED_PCT * len(regret):
        return ""
    return (
        f"the scoring server holds another target than the recorded one: of {len(regret)} greedy "
        f"first tokens, which never come from verification, {soft} lie more than "
        f"{session.control.margins.soft:g} nat below its own choice and {hard} more than "
        f"{session.control.margins.hard:g} nat"
    )


def _control(session: Session) -> str:
    """Take the noise of the scoring server's own plain decoding, if it does not contradict it."""
    count, length = session.budget.batched, session.budget.length
    asks = [
        Ask(ids=ids, max_tokens=length, ignore_eos=True) for ids in session.prompts.mixed(count)
    ]
    answers = session.client.generate_all(asks)
    pairs = [(ask, parts[0]) for ask, parts in zip(asks, answers, strict=True)]
    regrets = session.score(pairs).verified().regret
    worst = float(regrets.max(initial=0.0))
    if worst > session.control.margins.hard:
        what = f"the scoring server contradicts its own plain decoding by {worst:.1f} nat"
        return f"{what}, so its scores decide nothing"
    session.control = Control(margins_from_control(regrets), regrets)
    return ""
