"""Deterministic probes: length limits, stop tokens, bias, penalties, text, log-probabilities."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from specbench.model.verdict import Witness
from specbench.verify.session import Session
from specbench.verify.statistics import prefill_gap
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.logprob_gap import (
    last_tokens_regret,
    penalised_regret,
    windowed_regret,
)
from specbench.verify.statistics.tokens import Ints, ScoredTokens
from specbench.verify.wire import Ask, Completion

_LENGTHS = (1, 2, 3, 5, 7, 8, 13, 17, 31)
PENALTY = 2.0
# Some servers count the prompt as well, and no more than so many tokens.
PENALTY_WINDOW = 64
_SPECIAL = re.compile(r"<[^<>]*>")
_BIAS = 200.0


def run_lengths(session: Session) -> Evidence:
    """Ask for exact lengths: a verify block must be cut at the limit, not stretched over it."""
    prompts = session.prompts.chat
    asks = [
        Ask(ids=prompts[k % len(prompts)], max_tokens=n, ignore_eos=True)
        for k, n in enumerate(_LENGTHS)
    ]
    answers = session.ask(asks)
    wrong = [
        f"{len(parts[0].ids)} for {ask.max_tokens}"
        for ask, parts in zip(asks, answers, strict=True)
        if len(parts[0].ids) != ask.max_tokens
    ]
    if wrong:
        session.odd("length", f"max_new_tokens is not obeyed ({', '.join(wrong)})")
    return Evidence(
        name="length limits",
        stage="stop",
        method="exact lengths at temperature 0",
        n_tokens=sum(_LENGTHS),
        concurrency=session.abreast(len(_LENGTHS)),
        note=f"{len(_LENGTHS)} lengths from 1 to {_LENGTHS[-1]}",
    )


def run_bias(session: Session) -> Evidence | None:
    """Force one token by logit_bias: every row of every verify block must see the bias."""
    if "logit_bias" not in session.server.abilities:
        why = "the server does not have it"
        if session.server.speculative and session.server.quirks.bias_gap:
            why = session.server.quirks.bias_gap
        session.seen.not_tested.append(f"logit_bias: {why}")
        return None
    asks = [
        Ask(ids=ids, max_tokens=16, ignore_eos=True, logit_bias=((ids[len(ids) // 2], _BIAS),))
        for ids in session.prompts.chat[:4]
    ]
    answers = session.ask(asks)
    missed = [
        (ask, parts[0], place)
        for ask, parts in zip(asks, answers, strict=True)
        for place, token in enumerate(parts[0].ids)
        if token != ask.logit_bias[0][0]
    ]
    witness = _bias_witness(session, *missed[0]) if missed else None
    return Evidence(
        name="logit_bias",
        stage="bias",
        method=f"a bias of {_BIAS:g} nat forces one token",
        n_tokens=sum(len(parts[0].ids) for parts in answers),
        concurrency=session.abreast(len(asks)),
        temperature=0.0,
        witnesses=(witness,) if witness else (),
        fails=f"{len(missed)} tokens ignore the bias" if missed and not witness else "",
        seen={"witness": f"{len(missed)} tokens ignore a bias of {_BIAS:g} nat"},
    )


def run_penalties(session: Session) -> Evidence | None:
    """Audit greedy output under a frequency penalty that is applied here from exact counts."""
    count = session.budget.penalties
    if not count:
        return None
    asks = [
        Ask(
            ids=ids,
            max_tokens=min(session.budget.length, 48),
            frequency_penalty=PENALTY,
            ignore_eos=True,
            stream=True,
        )
        for ids in session.next_prompts(count)
    ]
    tokens, pairs = session.ask_and_score(asks)
    soft, verified = session.control.margins.soft, tokens.position > 0
    exact, stale = penalised_regret(tokens, PENALTY, _round_starts(tokens))
    windowed = windowed_regret(tokens, PENALTY, [ask.ids for ask, _ in pairs], PENALTY_WINDOW)
    counted = "of the answer"
    if (exact > soft).any() and not (windowed > soft).any():
        exact, counted = windowed, f"of the last {PENALTY_WINDOW}, prompt included"
    known = session.server.speculative and session.server.quirks.penalty_gap != ""
    late = last_tokens_regret(tokens, PENALTY) if known else np.full(len(tokens), np.inf)
    doubtful = int(((exact > soft) & verified).sum())
    unexplained = int(((exact > soft) & (np.minimum(stale, late) > soft) & verified).sum())
    ignored = doubtful > 0 and float(tokens.regret[verified].max(initial=0.0)) <= soft
    fails = f"{doubtful} of {len(tokens)} tokens contradict the penalty" if doubtful else ""
    if ignored:
        fails += ", as if none were applied"
    explained = known and doubtful > 0 and unexplained == 0 and not ignored
    return Evidence(
        name="frequency penalty",
        stage="penalty",
        method="regret audit with penalties applied by the client",
        n_tokens=len(tokens),
        concurrency=session.abreast(count),
        temperature=0.0,
        fails=fails,
        gap=session.server.quirks.penalty_gap if explained else "",
        note=f"counts tokens {counted}; {unexplained} contradict it even if accepted drafts are "
        "not counted",
    )


def run_logprobs(session: Session) -> Evidence | None:
    """Compare the log-probabilities given while generating with prefill's, greedy and sampled.

    Half of the requests are short: each has a text to compare with its tokens.
    """
    if "logprobs" not in session.server.abilities:
        session.seen.not_tested.append(
            "verify-against-prefill gap: no log-probabilities in answers"
        )
        return None
    session.rotation += 1
    long = min(session.budget.length, 96)
    asks = [
        Ask(
            ids=ids,
            max_tokens=long if k // 2 % 2 == 0 else long // 3,
            temperature=float(k % 2),
            ignore_eos=True,
            logprobs=True,
        )
        for k, ids in enumerate(session.prompts.mixed(session.budget.logprobs, session.rotation))
    ]
    tokens, pairs = session.ask_and_score(asks)
    for _, part in pairs:
        _check_text(session, part)
    verified = tokens.verified()
    if session.price > 1:
        # Of tokens beyond the likeliest ones a request shows no score, only a limit.
        verified = verified.where(verified.rank < verified.top_ids.shape[1])
    found = prefill_gap.summarise(prefill_gap.gaps(verified))
    if prefill_gap.lies(found):
        session.odd(
            "logprobs",
            "reported log-probabilities are not those of the emitted tokens "
            f"(median gap {found.median:.2f}, 99 % {found.q99:.2f} nat)",
        )
    return _gap_evidence(session, found)


def _gap_evidence(session: Session, found: prefill_gap.Gap) -> Evidence:
    known = session.control.gaps
    control = prefill_gap.summarise(known if known is not None else np.zeros(0))
    shown = f"99 % {found.q99:.3f}, largest {found.worst:.2f} nat"
    fails = f"gaps above the control's ({shown})" if prefill_gap.exceeds(found, control) else ""
    wide = control.n == 0 and found.q99 > prefill_gap.BF16_NAT / 2 and not prefill_gap.lies(found)
    hint = "record a reference to tell kernel noise from wrong verify logits"
    return Evidence(
        name="verify-against-prefill gap",
        stage="gap",
        method="log-probabilities while generating against prefill",
        n_tokens=found.n,
        concurrency=session.abreast(session.budget.logprobs),
        fails=fails,
        lacking=f"gaps are wide ({shown}); {hint}" if wide else "",
        note=f"median {found.median:.3f}, {shown}"
        + (f"; control 99 % {control.q99:.3f}" if control.n else ""),
    )


def _bias_witness(session: Session, ask: Ask, part: Completion, place: int) -> Witness | None:
    """Confirm that a one-token request at the same context does obey the bias."""
    probe = replace(ask, ids=(*ask.ids, *part.ids[:place]), max_tokens=1)
    (single,) = session.client.generate(probe)
    forced = ask.logit_bias[0][0]
    if single.ids[:1] != (forced,):
        return None
    return Witness(
        prompt_ids=list(ask.ids),
        position=place,
        token=part.ids[place],
        target_argmax=forced,
        margin_nat=_BIAS,
        curl=session.curl(probe),
        shows=session.shows(ask, place, session.abreast(4)),
        stage="bias",
    )


def _check_text(session: Session, part: Completion) -> None:
    """Compare text and pieces; characters that are split over tokens cannot be judged.

    Special tokens have a piece but, by default, no place in the text.
    """
    if len(part.pieces) != len(part.ids) or not part.ids:
        return
    plain = "".join(p for p in part.pieces if not _SPECIAL.fullmatch(p))
    whole = "".join(part.pieces)
    if "\ufffd" in whole or "\ufffd" in part.text:
        return
    if "".join(part.text.split()) not in ("".join(plain.split()), "".join(whole.split())):
        session.odd("text", "the text is not the text of the returned tokens")


def _round_starts(tokens: ScoredTokens) -> Ints:
    """Return how many output tokens the server may have counted: as of the round before.

    Without a visible round structure the start of the output is taken.
    """
    starts = np.zeros(len(tokens), np.int64)
    for request in np.unique(tokens.request):
        rows = np.flatnonzero(tokens.request == request)
        borders = [0]
        for row in rows.tolist():
            if tokens.round_index[row] == 0:
                borders.append(int(tokens.position[row]))
            starts[row] = borders[-2] if len(borders) > 1 else 0
    return starts
