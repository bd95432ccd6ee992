"""Verdicts of before there were codes: the sentences of that day, turned into today's codes."""

import re
from typing import Any

_TREE = (" mask", "mask of", "compaction")
_REPRODUCED = "reproduced wrong token"
_P_VALUE = re.compile(r"(?P<test>[^;:]+): p = ")


def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """Give a verdict document as today's specbench writes it; today's own is left as it is."""
    claims = [_claim(claim) for claim in _list(document.get("claims"))]
    suspects = [_suspect(one) for one in _list(document.get("suspects"))]
    notes = document.get("notes")
    if notes is None:
        notes = _notes(str(document.get("findings") or ""))
    return document | {"claims": claims, "suspects": suspects, "notes": notes}


def _list(value: Any) -> list[Any]:
    """Take a list; None is empty, and what is no list is for the decoder to refuse."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _claim(claim: Any) -> Any:
    if not isinstance(claim, dict):
        return claim
    if "ground" in claim or claim.get("verdict") != "violated":
        return claim
    note = str(claim.get("note") or "")
    if _REPRODUCED in note:
        return claim | {"ground": "witness"}
    if found := _P_VALUE.match(note):
        return claim | {"ground": "test", "test": found["test"]}
    return claim | {"ground": "e-process" if note.startswith("e-process") else ""}


def _suspect(suspect: Any) -> Any:
    if not isinstance(suspect, str):
        return suspect
    of_trees = any(word in suspect for word in _TREE)
    return {"text": suspect, "code": "mask_compaction" if of_trees else ""}


def _notes(findings: str) -> list[str]:
    _, found, rest = findings.partition("\nNotes:\n")
    lines = rest.split("\n\n", 1)[0].splitlines() if found else []
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]
