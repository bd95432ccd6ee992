"""Verdicts on a terminal or as JSON; progress of a verification on standard error."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from specbench.cli.show.consoles import say, say_json
from specbench.model.verdict import VerdictDocument
from specbench.verify.events import (
    StageFinished,
    StageStarted,
    VerdictReady,
    VerifyEvent,
    VerifyNotice,
)


def follow(events: Iterable[VerifyEvent]) -> list[VerdictDocument]:
    """Show progress as it comes; return the verdicts."""
    documents = []
    for event in events:
        match event:
            case StageStarted(stage=stage):
                say(f"... {stage}", err=True)
            case StageFinished(stage=stage, generated=generated, limit=limit, note=note):
                say(f"    {generated:>7} of {limit} tokens  {stage}: {note}", err=True)
            case VerifyNotice(text=text):
                say(f"note: {text}", err=True)
            case VerdictReady(document=document):
                documents.append(document)
    return documents


def show(documents: Sequence[VerdictDocument], json: Path | None) -> int:
    """Print findings, or write the JSON; return the exit status (the worst of all verdicts)."""
    whole = documents[0] if len(documents) == 1 else list(documents)
    if json is not None and str(json) == "-":
        say_json(whole, indent=1)
    else:
        for document in documents:
            say(document.findings)
        if json is not None:
            json.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
    statuses = {document.exit_status for document in documents}
    return next((s for s in (1, 5) if s in statuses), 0)


def show_reference(manifest: dict[str, Any], path: Path) -> None:
    """Say what was recorded."""
    server = manifest["server"]
    if manifest.get("outputs"):
        say(
            f"{path}: {manifest['tokens']} tokens of a speculative server of "
            f"{server.get('model_path') or server.get('model')}, version {server.get('version')}. "
            f"A plain server of the same target gives the verdict:\n"
            f"  specbench verify --url URL --reference {path}"
        )
        return
    say(
        f"{path}: reference of {server.get('model_path') or server.get('model')}, "
        f"version {server.get('version')}, prompts {manifest['prompts_sha256'][:12]}"
    )
