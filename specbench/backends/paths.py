"""The endpoint of an API at a product."""

from collections.abc import Mapping

from specbench.errors import InputError
from specbench.model.load import Api


def path_of(paths: Mapping[Api, str], api: Api, title: str) -> str:
    """Return the path of an API. Raises InputError where the product does not have it."""
    path = paths.get(api)
    if path is None:
        raise InputError(f"{title} has no API {api!r}", hint=f"one of: {', '.join(sorted(paths))}")
    return path
