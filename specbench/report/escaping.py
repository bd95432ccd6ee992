"""Text from elsewhere made harmless: without control characters, and in Markdown."""

import re
from typing import Any

from specbench.model.visible import visible


def clean(text: Any) -> str:
    """Show control and bidirectional characters as escapes: a log may colour its lines."""
    return visible(text)


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
