"""Answers that should be a JSON object."""

from typing import Any

import msgspec


def json_object(body: bytes) -> dict[str, Any]:
    """Decode an object; anything else gives an empty one."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return document if isinstance(document, dict) else {}
