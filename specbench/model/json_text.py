"""JSON that others wrote: what decoding it can raise, and how to say so."""

import msgspec

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is no JSON, no UTF-8, or nested too deeply."""


def why_not(error: Exception) -> str:
    """Say in words for a reader why a text could not be decoded."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
