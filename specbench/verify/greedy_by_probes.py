"""The regret audit without log-probabilities: one one-token request for every emitted token."""

from __future__ import annotations

from dataclasses import replace

from specbench.model.verdict import Witness
from specbench.verify.session import Session
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.wire import Ask

_REQUESTS = 8
_LENGTH = 48
_TOP_NAT = 16.0


def run_probed(session: Session) -> Evidence:
    """Ask prefill for its favourite at every context; measure the margin of each disagreement.

    The margin is bisected with logit_bias where the server has it: the least bias that makes the
    emitted token the favourite. Without it, a disagreement cannot be told from a near tie.
    """
    session.not_tested.append(
        "everything at temperature > 0: the server gives no prompt log-probabilities"
    )
    asks = [
        Ask(ids=ids, max_tokens=_LENGTH, ignore_eos=True)
        for ids in session.prompts.chat[:_REQUESTS]
    ]
    outputs = [parts[0].ids for parts in session.ask(asks)]
    contexts = [
        (ask, out, place)
        for ask, out in zip(asks, outputs, strict=True)
        for place in range(1, len(out))
    ]
    probes = [Ask(ids=(*a.ids, *out[:k]), max_tokens=1, ignore_eos=True) for a, out, k in contexts]
    favourites = [parts[0].ids[0] for parts in session.ask(probes)]
    wrong = [
        (probe, ask, out, place, best)
        for probe, (ask, out, place), best in zip(probes, contexts, favourites, strict=True)
        if best != out[place]
    ]
    can_bisect = "logit_bias" in session.server.abilities
    margins = [_margin(session, w[0], w[2][w[3]]) for w in wrong[:20]] if can_bisect else []
    witnesses = tuple(
        Witness(
            prompt_ids=list(ask.ids),
            position=place,
            token=out[place],
            target_argmax=best,
            margin_nat=margin,
            curl=session.curl(probe),
            stage="G1",
        )
        for (probe, ask, out, place, best), margin in zip(wrong, margins, strict=False)
        if margin > session.margins.hard
    )
    unknown = len(wrong) if not can_bisect else sum(m > session.margins.soft for m in margins)
    return Evidence(
        name="greedy, probed token by token",
        stage="GC",
        method="one-token prefill requests, margins by logit_bias",
        n_tokens=len(contexts),
        concurrency=session.abreast(len(asks)),
        temperature=0.0,
        witnesses=witnesses[:3],
        lacking=f"{unknown} disagreements of unknown margin" if unknown else "",
        note=f"{len(wrong)} of {len(contexts)} tokens are not prefill's favourite",
        seen={"witness": f"{len(wrong)} of {len(contexts)} tokens are not prefill's favourite"},
    )


def _margin(session: Session, probe: Ask, token: int) -> float:
    """Bisect the least bias (nat) that makes `token` the favourite, to a sixteenth nat."""
    low, high = 0.0, _TOP_NAT
    while high - low > 1 / 16:
        middle = (low + high) / 2
        (single,) = session.client.generate(replace(probe, logit_bias=((token, middle),)))
        low, high = (low, middle) if single.ids[:1] == (token,) else (middle, high)
    return high
