"""The one place where text from elsewhere is made fit to be shown."""

import unicodedata

_KEPT = frozenset("\n\t\u00ad\u200c\u200d")
"""Lines and columns; a soft hyphen and the joiners belong to words and to emoji."""
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def visible(text: object) -> str:
    r"""Write what acts on a terminal or turns text around as `\u001b`: JSON reads it back.

    These are Unicode's control, format and surrogate characters and its separators of lines: a
    server's name must not clear the screen, set its title, or make `evil.txt` look like another.
    """
    whole = str(text)
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(map(_shown, whole))


def _shown(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _UNSHOWN:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
