"""Tests of real engines run only where they are asked for: `pytest -m real`, `make test-real`."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "real" in config.option.markexpr:
        return
    kept = [item for item in items if item.get_closest_marker("real") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
