"""What the last `make test-real` measured, kept beside the engines for the page of the docs."""

import json
from typing import Any, Literal

from tests.real import engines
from tests.real.engines import Product

What = Literal["run", "load", "verify"]


def keep(product: Product, what: What, outcome: dict[str, Any]) -> None:
    """Write one outcome over the one before."""
    folder = engines.folder() / "outcomes"
    folder.mkdir(exist_ok=True)
    text = json.dumps({"version": engines.VERSIONS[product], **outcome}, indent=1)
    (folder / f"{product}-{what}.json").write_text(text + "\n")


def last(product: Product, what: What) -> dict[str, Any] | None:
    """The newest outcome, or None where there is none for the version that is pinned now."""
    path = engines.folder() / "outcomes" / f"{product}-{what}.json"
    if not path.exists():
        return None
    outcome: dict[str, Any] = json.loads(path.read_text())
    return outcome if outcome["version"] == engines.VERSIONS[product] else None
