"""What can be verified: a running server, or the verdicts that a recording holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specbench.errors import HostError, InputError, RecordingError
from specbench.verify.battery import open_session, run_battery
from specbench.verify.client import Client
from specbench.verify.deferred import score_recording
from specbench.verify.events import VerdictReady, VerifyEvent, VerifyNotice
from specbench.verify.handshake import shake_hands
from specbench.verify.options import VerifyOptions
from specbench.verify.recorded_outputs import record_outputs
from specbench.verify.reference import read_reference, record_reference
from specbench.workflows.recording_open import open_recording


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
        InputError: a URL and a target were both given, or own sampling parameters without a URL.
        RecordingError: the recording holds no verdict.

    """
    if url is not None and target is not None:
        raise InputError(
            "both a target and --url were given", hint="one of them: MATRIX, RECORDING or --url"
        )
    if url is not None:
        return verify_url(url, options)
    if options.own is not None:
        raise InputError(
            "sampling parameters of your own are tested on a running server",
            hint="add --url; a matrix tests the levels of its factors",
        )
    if target is not None and target.suffix in (".yaml", ".yml"):
        from specbench.workflows.verify_matrix import (  # noqa: PLC0415 - a run imports this package
            verify_matrix,
        )

        return verify_matrix(target, options, hosts=hosts, results=results)
    return recorded_verdicts(target or results)


def verify_url(url: str, options: VerifyOptions) -> Iterator[VerifyEvent]:
    """Verify a running server; or, given recorded outputs, let it score these.

    Raises:
        HostError: nobody answers at `url`.
        InputError: an API key is needed, or the reference cannot be used with this server.

    """
    reference = read_reference(options.reference) if options.reference else None
    client = Client(url, options.api_key_env, options.concurrency, options.timeout_s)
    try:
        if reference is not None and reference.holds_outputs:
            yield from score_recording(client, options, reference)
        else:
            yield from run_battery(client, options, reference)
    finally:
        client.close()


def recorded_verdicts(path: Path) -> Iterator[VerifyEvent]:
    """Read the verdicts that a recording holds.

    Raises:
        RecordingError: there is no recording, or it holds no verdict.

    """
    recording = open_recording(path)
    for one in recording.damage:
        yield VerifyNotice(text=f"damaged: {one}")
    if not recording.verdicts:
        raise RecordingError(
            "the recording holds no verdict",
            where=str(recording.path),
            hint="verify a running server with --url, or run the matrix with verification",
        )
    for document in recording.verdicts:
        yield VerdictReady(document=document)


def record_server(url: str, path: Path, options: VerifyOptions) -> dict[str, Any]:
    """Record a running server; return the manifest.

    A plain server gives a reference: its target and its noise. A speculative one, and one that
    cannot score, gives outputs to be scored later.

    Raises:
        HostError: nobody answers, or the server does not say token ids.
        InputError: an API key is needed, or the file cannot be written.
        ServiceError: the server died; what was recorded until then is in the file.

    """
    client = Client(url, options.api_key_env, options.concurrency, options.timeout_s)
    try:
        server = shake_hands(client)
        if "ids" not in server.abilities:
            raise HostError(
                "this server does not say token ids, so its outputs cannot be scored exactly",
                where=url,
                hint="an endpoint that takes and gives token ids is needed",
            )
        if server.speculative or "score" not in server.abilities:
            return record_outputs(client, server, options, path)
        return record_reference(open_session(client, server, options), path)
    finally:
        client.close()
