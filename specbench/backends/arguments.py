"""Flags to words of a command line."""

from collections.abc import Iterable

from specbench.model.matrix import Level


def arguments(flags: Iterable[tuple[str, Level]]) -> list[str]:
    """Write `--flag value`; True is a bare flag, False and None are none."""
    words: list[str] = []
    for flag, value in flags:
        match value:
            case None | False:
                pass
            case True:
                words.append(f"--{flag}")
            case _:
                text = str(value)
                # argparse takes a value that starts with a dash for another flag.
                words.extend([f"--{flag}={text}"] if text[:1] == "-" else [f"--{flag}", text])
    return words
