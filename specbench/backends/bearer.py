"""The header that carries an API key, or a refusal that does not repeat the key."""

from specbench.errors import InputError


def bearer(key: str, source: str = "api_key") -> str:
    """Write the value of the Authorization header; `source` names where the key comes from.

    Raises InputError for a key that no header can carry.
    """
    if key.isascii() and key.isprintable() and key == key.strip():
        return f"Bearer {key}"
    kind = "a character that is not ASCII" if not key.isascii() else "a control character"
    if key != key.strip():
        kind = "a space or the end of a line at an end of it"
    raise InputError(
        f"the API key in {source} holds {kind}, which no header can carry",
        hint='set it again from the file alone: export NAME="$(cat FILE)"',
    )
