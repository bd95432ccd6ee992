"""What can be verified: a running server, or the verdicts that a recording holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from specbench.errors import HostError, InputError, RecordingError
from specbench.model.verdict import VerdictDocument
from specbench.workflows.opening import open_recording
from specbench.workflows.verify.battery import open_session, verify_server
from specbench.workflows.verify.client import Client
from specbench.workflows.verify.events import VerdictReady, VerifyEvent
from specbench.workflows.verify.handshake import shake_hands
from specbench.workflows.verify.options import VerifyOptions
from specbench.workflows.verify.reference import record_reference


def verify_target(
    target: Path | None,
    url: str | None,
    options: VerifyOptions,
    *,
    hosts: Path | None = None,
    results: Path = Path("results"),
) -> Iterator[VerifyEvent]:
    """Verify what was named: a URL, a matrix, or a recording (by default the newest one).

    Raises:
        InputError: a URL and a target were both given.
        RecordingError: the recording holds no verdict.

    """
    if url is not None and target is not None:
        raise InputError(
            "both a target and --url were given", hint="one of them: MATRIX, RECORDING or --url"
        )
    if url is not None:
        return verify_server(url, options)
    if target is not None and target.suffix in (".yaml", ".yml"):
        from specbench.workflows.matrix_verdicts import (  # noqa: PLC0415 - a run imports this package
            verify_matrix,
        )

        return verify_matrix(target, options, hosts=hosts, results=results)
    return recorded_verdicts(target or results)


def recorded_verdicts(path: Path) -> Iterator[VerifyEvent]:
    """Read the verdicts that a recording holds.

    Raises:
        RecordingError: there is no recording, or it holds no verdict.

    """
    recording = open_recording(path)
    if not recording.verdicts:
        raise RecordingError(
            "the recording holds no verdict",
            where=str(recording.path),
            hint="verify a running server with --url, or run the matrix with verification",
        )
    for row in recording.verdicts:
        yield VerdictReady(document=msgspec.convert(row, VerdictDocument))


def record_server(url: str, path: Path, options: VerifyOptions) -> dict[str, Any]:
    """Record a reference of a running server; return its manifest.

    Raises:
        HostError: nobody answers, or the server does not give prompt log-probabilities.
        InputError: an API key is needed.

    """
    client = Client(url, options.api_key_env, options.concurrency, options.timeout_s)
    try:
        server = shake_hands(client)
        if "score" not in server.abilities:
            raise HostError(
                "this server gives no prompt log-probabilities, so it cannot be a reference",
                where=url,
                hint="SGLang's return_logprob or vLLM's prompt_logprobs is needed",
            )
        return record_reference(open_session(client, server, options), path)
    finally:
        client.close()
