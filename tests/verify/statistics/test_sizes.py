"""Sizes in words state the true effect of an injected fault."""

import re

import numpy as np
import pytest

from specbench.verify.statistics.evidence import Effect
from specbench.verify.statistics.sampled import SampledMargins, examine
from specbench.verify.statistics.shaping import Filters
from specbench.verify.statistics.sizes import decisive
from specbench.verify.statistics.tokens import Floats
from tests.verify.statistics.synthetic import Draw, emit

MARGINS = SampledMargins(t_eff_pct=10.0, excess_greedy_pct=5.0, garbage_pct=0.3)


def seen(draw: Draw) -> dict[str, str]:
    tokens = emit(6000, np.random.default_rng(3), draw=draw)
    evidence, _ = examine(
        tokens, Filters(), MARGINS, vocab=64, stop_ids=frozenset({5}), alpha=0.01, seed=0
    )
    assert set(evidence.tests) <= set(evidence.seen)
    return evidence.seen


def number(text: str) -> float:
    found = re.search(r"-?\d+(\.\d+)?", text)
    assert found is not None
    return float(found[0])


def greedily(p: Floats, rng: np.random.Generator) -> int:
    return int(p.argmax()) if rng.random() < 0.4 else int(rng.choice(len(p), p=p))


def hotter(p: Floats, rng: np.random.Generator) -> int:
    q = p ** (1 / 1.2)
    return int(rng.choice(len(p), p=q / q.sum()))


def without_second(p: Floats, rng: np.random.Generator) -> int:
    q = np.where(np.arange(len(p)) == np.argsort(-p)[1], 0.0, p)
    return int(rng.choice(len(p), p=q / q.sum()))


def test_the_share_of_greedy_tokens_is_said() -> None:
    assert number(seen(greedily)["favourite"]) == pytest.approx(40, abs=5)


def test_the_effective_temperature_is_said_with_its_direction() -> None:
    said = seen(hotter)["log-likelihood"]

    assert number(said) == pytest.approx(20, abs=6)
    assert "hotter" in said
    assert "margin +-10 %" in said


def test_the_rank_that_is_missing_is_named() -> None:
    said = seen(without_second)["ranks"]

    assert said.startswith("rank 2 was drawn 0 times where")


def test_greedy_decoding_leads_only_where_it_is_plain() -> None:
    p_values = {"log-likelihood": 0.0, "favourite": 0.0}

    assert decisive(p_values, Effect("excess_greedy_pct", 98.0, 95.0, 101.0)) == "favourite"
    assert decisive(p_values, Effect("excess_greedy_pct", 20.0, 15.0, 25.0)) == "log-likelihood"
