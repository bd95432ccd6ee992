"""Answers that should be a JSON object."""

from typing import Any

import msgspec

from specbench.model.json_text import NOT_JSON


def json_object(body: bytes) -> dict[str, Any]:
    """Decode an object; anything else gives an empty one."""
    try:
        document = msgspec.json.decode(body)
    except NOT_JSON:
        return {}
    return document if isinstance(document, dict) else {}
