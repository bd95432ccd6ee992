"""Text from elsewhere made harmless: without control characters, and in Markdown."""

import re
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def clean(text: Any) -> str:
    """Take out control characters (a log may colour its lines) and lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def escape(text: Any) -> str:
    """Make text from elsewhere harmless in Markdown, on one line; backticks stay."""
    flat = " ".join(clean(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\*_\[\]|#~])", r"\\\1", flat) if "`" not in flat else _around_code(flat)


def _around_code(flat: str) -> str:
    parts = re.split(r"(`[^`]*`)", flat)
    return "".join(
        part if part.startswith("`") and part.endswith("`") and len(part) > 1
        else re.sub(r"([\\*_\[\]|#~`])", r"\\\1", part)
        for part in parts
    )  # fmt: skip
