from dataclasses import replace
from pathlib import Path

import pytest

from specbench.errors import InputError
from specbench.model.verdict import Claim
from specbench.verify.options import BUDGETS, S1, own_filters
from specbench.verify.statistics.shaping import Filters
from specbench.workflows.verify_target import verify_target
from tests.verify.fake_server import FakeServer
from tests.verify.test_battery import OPTIONS, SMALL, verify

BOTH = replace(OPTIONS, sizes=replace(SMALL, sampled=((S1, 1200),), fixed=(0, 0), composed=24))


def composed(*faults: str) -> tuple[Claim, str]:
    document = verify(FakeServer(faults=frozenset(faults)), BOTH)
    return next(c for c in document.claims if c.name == "top_k with top_p"), document.findings


@pytest.mark.parametrize("faults", [(), ("in_sequence",)])
def test_filters_that_verify_and_prefill_compose_alike_hold(faults: tuple[str, ...]) -> None:
    assert composed(*faults)[0].verdict == "holds"


def test_filters_in_sequence_in_verify_alone_are_the_known_gap_of_sglang() -> None:
    claim, findings = composed("sequence_in_verify")

    assert claim.verdict == "violated"
    assert "what top_k left when it verifies" in claim.known_gap
    assert "tokens that only the joint composition allows where" in claim.finding
    assert "Except, as known upstream: SGLang decides top_k and top_p together" in findings


def test_filters_in_sequence_in_prefill_alone_are_nobodys_known_gap() -> None:
    claim, _ = composed("sequence_in_prefill")

    assert claim.verdict == "violated"
    assert claim.known_gap == ""
    assert "prefill in sequence" in claim.finding


@pytest.mark.parametrize(
    "own",
    [
        Filters(temperature=0.7, top_p=0.9),
        Filters(temperature=0.6, top_k=20, top_p=0.95),
        Filters(temperature=1.3),
    ],
    ids=str,
)
def test_the_users_own_parameters_get_a_verdict_of_their_own(own: Filters) -> None:
    options = replace(OPTIONS, own=own)

    clean = verify(FakeServer(), options)
    broken = verify(FakeServer(faults=frozenset({"hot"})), options)

    assert {c.verdict for c in clean.claims if "(yours)" in c.name} == {"holds"}, clean.findings
    assert "violated" in {c.verdict for c in broken.claims if "(yours)" in c.name}


def test_a_min_p_of_the_users_that_verification_ignores_is_a_known_gap() -> None:
    options = replace(OPTIONS, own=Filters(min_p=0.3))

    document = verify(FakeServer(faults=frozenset({"no_min_p"})), options)

    claim = next(c for c in document.claims if "(yours)" in c.name)
    assert claim.verdict == "violated"
    assert "min_p is ignored" in claim.known_gap
    assert document.verdict == "holds", document.findings


def test_own_parameters_need_a_running_server_and_are_never_ignored() -> None:
    with pytest.raises(InputError, match="running server"):
        verify_target(Path("matrix.yaml"), None, replace(OPTIONS, own=Filters(temperature=0.7)))


def test_own_parameters_cost_tokens_of_their_own_and_defaults_cost_none() -> None:
    own = own_filters(0.7, -1, 0.95, 0.0)

    assert own == Filters(0.7, 0, 0.95, 0.0)
    assert BUDGETS["quick"].with_own(own).limit > BUDGETS["quick"].limit
    assert own_filters(None) is None
    assert own_filters(0.0, 20, 0.9, 0.0) is None
