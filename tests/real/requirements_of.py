"""Print what an installed distribution requires, less the packages that are named.

    python requirements_of.py DISTRIBUTION LEFT_OUT...

Extras and requirements of other platforms are left out too. Needs `packaging`.
"""

import sys
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def main(name: str, left_out: list[str]) -> None:
    """Print one requirement a line."""
    unwanted = {canonicalize_name(each) for each in left_out}
    for line in metadata.requires(name) or []:
        wanted = Requirement(line)
        if canonicalize_name(wanted.name) in unwanted:
            continue
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            wanted.marker = None
            print(wanted)  # noqa: T201  pip reads it


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
