"""A reference recording of a plain autoregressive server: target identity and noise control.

The file is sealed JSON lines: a manifest, one line a record, and the SHA-256 of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specbench.verify.checksummed import SCHEMA, read_checksummed, write_checksummed
from specbench.verify.handshake import RANKS
from specbench.verify.session import Session
from specbench.verify.statistics.prefill_gap import gaps
from specbench.verify.statistics.tokens import Floats
from specbench.verify.wire import Ask
from specbench.version import __version__

# Same weights and dtype: scores agree to kernel noise. Larger gaps mean another target.
SAME_MEDIAN_NAT = 0.05
SAME_Q99_NAT = 0.5


@dataclass(frozen=True, slots=True)
class Reference:
    """`texts` are (ids, log-probabilities of ids[1:]); regrets and gaps are of plain decoding.

    `rows` is the whole file: what `recorded_outputs` reads where outputs were recorded.
    """

    manifest: dict[str, Any]
    texts: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
    regrets: Floats
    gaps: Floats
    sha256: str
    rows: tuple[dict[str, Any], ...] = ()

    @property
    def holds_outputs(self) -> bool:
        """Whether it holds outputs that are still to be scored, and not a plain server's noise."""
        return bool(self.manifest.get("outputs"))


def record_reference(session: Session, path: Path) -> dict[str, Any]:
    """Record an autoregressive server: fixed texts scored, greedy outputs at 1 and at C scored.

    Returns the manifest.
    """
    rows = [manifest_of(session), *score_texts(session)]
    for concurrency in (1, session.client.concurrency):
        count = session.budget.alone if concurrency == 1 else session.budget.batched
        asks = [
            Ask(ids=ids, max_tokens=session.budget.length, ignore_eos=True, logprobs=True)
            for ids in session.prompts.mixed(count, concurrency)
        ]
        tokens, _ = session.ask_and_score(asks, concurrency)
        verified = tokens.verified()
        rows.append(
            {
                "kind": "greedy",
                "concurrency": concurrency,
                "regrets": [round(float(x), 5) for x in verified.regret],
                "gaps": [round(float(x), 5) for x in gaps(verified)],
            }
        )
    write_checksummed(path, rows)
    return rows[0]


def score_texts(session: Session) -> list[dict[str, Any]]:
    """Return a row for each fixed text: its ids and the log-probabilities of ids[1:]."""
    return [
        {"kind": "text", "ids": ids, "logp": session.client.score(ids, 1, RANKS).logp}
        for ids in session.prompts.texts
    ]


def read_reference(path: Path) -> Reference:
    """Read a reference recording, or the recorded outputs of a speculative server.

    Raises:
        InputError: it does not exist, is truncated, was changed, or is of a newer schema.

    """
    rows, digest = read_checksummed(path)
    greedy = [row for row in rows if row["kind"] == "greedy"]
    return Reference(
        manifest=rows[0],
        texts=tuple(
            (tuple(row["ids"]), tuple(row["logp"])) for row in rows if row["kind"] == "text"
        ),
        regrets=np.array([x for row in greedy for x in row["regrets"]], float),
        gaps=np.array([x for row in greedy for x in row["gaps"]], float),
        sha256=digest,
        rows=tuple(rows),
    )


def different_target(session: Session, reference: Reference) -> str:
    """Say why the server does not hold the reference's target, or return an empty string."""
    ours, theirs = session.prompts.texts, [ids for ids, _ in reference.texts]
    if [tuple(x) for x in ours] != theirs:
        return "the reference was made with another tokeniser (equal texts, other token ids)"
    differences: list[float] = []
    for ids, logp in reference.texts:
        score = session.score_one(ids, 1)
        differences += [
            abs(a - b)
            for a, b, token, top in zip(score.logp, logp, score.ids, score.top_ids, strict=True)
            # A one-token request shows a limit, and no score, of a token beyond the likeliest.
            if session.price == 1 or token in top
        ]
    median, high = np.quantile(differences, [0.5, 0.99])
    if median > SAME_MEDIAN_NAT or high > SAME_Q99_NAT:
        return (
            f"the server holds another target than the reference: equal texts score differently "
            f"(median {median:.3f} nat, 99 % {high:.3f} nat over {len(differences)} tokens)"
        )
    return ""


def warnings(session: Session, reference: Reference) -> list[str]:
    """Return what differs between the servers though the target is the same."""
    then = reference.manifest.get("server", {})
    now = dict(session.server.facts)
    watched = ("version", "attention_backend", "dtype", "kv_cache_dtype", "tp_size")
    return [
        f"{key}: {then.get(key)!r} when the reference was recorded, {now.get(key)!r} now"
        for key in watched
        if then.get(key) != now.get(key)
    ]


def manifest_of(session: Session) -> dict[str, Any]:
    """Return what was recorded: the server, the prompts, the load."""
    return {
        "kind": "manifest",
        "schema": SCHEMA,
        "specbench": __version__,
        "server": dict(session.server.facts),
        "speculative": session.server.speculative,
        "prompts_sha256": session.prompts.sha256,
        "concurrency": session.client.concurrency,
    }
