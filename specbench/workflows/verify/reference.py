"""A reference recording of a plain autoregressive server: target identity and noise control.

The file is JSON lines: a manifest, one line a record, and a last line with the SHA-256 of all
lines before it. Without that last line the file is truncated and refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from specbench.analysis.lossless.gap import gaps
from specbench.analysis.lossless.tokens import Floats
from specbench.errors import InputError
from specbench.version import __version__
from specbench.workflows.verify.handshake import RANKS
from specbench.workflows.verify.session import Session
from specbench.workflows.verify.wire import Ask

SCHEMA = 1
# Same weights and dtype: scores agree to kernel noise. Larger gaps mean another target.
SAME_MEDIAN_NAT = 0.05
SAME_Q99_NAT = 0.5


@dataclass(frozen=True, slots=True)
class Reference:
    """`texts` are (ids, log-probabilities of ids[1:]); regrets and gaps are of plain decoding."""

    manifest: dict[str, Any]
    texts: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
    regrets: Floats
    gaps: Floats
    sha256: str


def record_reference(session: Session, path: Path) -> dict[str, Any]:
    """Record an autoregressive server: fixed texts scored, greedy outputs at 1 and at C scored.

    Returns the manifest. The file is written beside its name first and then renamed.
    """
    lines = [msgspec.json.encode(_manifest(session))]
    for ids in session.prompts.texts:
        score = session.client.score(ids, 1, RANKS)
        lines.append(msgspec.json.encode({"kind": "text", "ids": ids, "logp": score.logp}))
    for concurrency in (1, session.client.concurrency):
        count = session.budget.alone if concurrency == 1 else session.budget.batched
        asks = [
            Ask(ids=ids, max_tokens=session.budget.length, ignore_eos=True, logprobs=True)
            for ids in session.prompts.mixed(count, concurrency)
        ]
        tokens, _ = session.ask_and_score(asks, concurrency)
        verified = tokens.verified()
        record = {
            "kind": "greedy",
            "concurrency": concurrency,
            "regrets": [round(float(x), 5) for x in verified.regret],
            "gaps": [round(float(x), 5) for x in gaps(verified)],
        }
        lines.append(msgspec.json.encode(record))
    body = b"\n".join(lines) + b"\n"
    digest = hashlib.sha256(body).hexdigest()
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(body + msgspec.json.encode({"kind": "end", "sha256": digest}) + b"\n")
    partial.replace(path)
    return _manifest(session)


def read_reference(path: Path) -> Reference:
    """Read a reference recording.

    Raises:
        InputError: it does not exist, is truncated, was changed, or is of a newer schema.

    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"the reference cannot be read: {error}", where=str(path)) from error
    body, _, end = raw.rstrip(b"\n").rpartition(b"\n")
    body += b"\n"
    try:
        rows = [msgspec.json.decode(line) for line in body.splitlines() if line]
        last = msgspec.json.decode(end)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(path, "is not a reference recording, or was cut inside a line") from error
    if not isinstance(last, dict) or last.get("kind") != "end":
        raise _bad(path, "is truncated: its last line is missing")
    if last.get("sha256") != hashlib.sha256(body).hexdigest():
        raise _bad(path, "was changed after it was written: its checksum does not match")
    if not rows or rows[0].get("kind") != "manifest" or rows[0].get("schema") != SCHEMA:
        raise _bad(path, f"has another schema than {SCHEMA}")
    greedy = [row for row in rows if row["kind"] == "greedy"]
    return Reference(
        manifest=rows[0],
        texts=tuple(
            (tuple(row["ids"]), tuple(row["logp"])) for row in rows if row["kind"] == "text"
        ),
        regrets=np.array([x for row in greedy for x in row["regrets"]], float),
        gaps=np.array([x for row in greedy for x in row["gaps"]], float),
        sha256=str(last["sha256"]),
    )


def different_target(session: Session, reference: Reference) -> str:
    """Say why the server does not hold the reference's target, or return an empty string."""
    ours, theirs = session.prompts.texts, [ids for ids, _ in reference.texts]
    if [tuple(x) for x in ours] != theirs:
        return "the reference was made with another tokeniser (equal texts, other token ids)"
    differences: list[float] = []
    for ids, logp in reference.texts:
        score = session.client.score(ids, 1, RANKS)
        differences += [abs(a - b) for a, b in zip(score.logp, logp, strict=True)]
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


def _manifest(session: Session) -> dict[str, Any]:
    return {
        "kind": "manifest",
        "schema": SCHEMA,
        "specbench": __version__,
        "server": dict(session.server.facts),
        "speculative": session.server.speculative,
        "prompts_sha256": session.prompts.sha256,
        "concurrency": session.client.concurrency,
    }


def _bad(path: Path, what: str) -> InputError:
    return InputError(
        f"the reference {path.name} {what}",
        where=str(path),
        hint="record it again: specbench record --url URL -o FILE",
    )
