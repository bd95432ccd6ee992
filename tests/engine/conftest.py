"""The language model that the engine's tests share: trained once a session, or from the cache."""

import pytest

from specbench.engine.lm import LanguageModel, load_language


@pytest.fixture(scope="session")
def language() -> LanguageModel:
    return load_language()
