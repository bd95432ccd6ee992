"""Chat shapes and grammars: what only a text can show, against a server that slips."""

from dataclasses import replace

import pytest

from specbench.verify.battery import open_session, run_battery
from specbench.verify.events import VerdictReady
from specbench.verify.grammar import run_grammar
from specbench.verify.handshake import shake_hands
from specbench.verify.options import VerifyOptions
from specbench.verify.session import Session
from specbench.verify.shapes import run_shapes
from tests.verify.talker import Talker
from tests.verify.test_battery import SMALL

SIZES = replace(SMALL, letters=96)


def session_of(server: Talker) -> Session:
    return open_session(server, shake_hands(server), VerifyOptions(sizes=SIZES))


def talker(*slips: str, key: str | None = "regex", thinks: bool = True, seed: int = 0) -> Talker:
    return Talker(slips=frozenset(slips), key=key, thinks=thinks, seed=seed)


def test_a_server_that_keeps_every_shape_is_not_accused_and_each_shape_is_named() -> None:
    session = session_of(talker())

    found = run_shapes(session)

    assert found is not None
    assert found.fails == ""
    for shape in ("stop strings", "streamed text", "n = 2", "echo", "reasoning", "tool calls"):
        assert shape in found.note
    assert not any("refused" in text for text in session.seen.not_tested)


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ("stop_left", "stop strings: "),
        ("stream_loses", "streamed text: "),
        ("tag_left", "</think> stands in the content"),
        ("bad_call", "are no JSON"),
    ],
)
def test_a_shape_that_is_broken_is_named(slip: str, said: str) -> None:
    found = run_shapes(session_of(talker(slip)))

    assert found is not None
    assert said in found.fails


def test_a_server_that_does_not_think_is_not_judged_by_its_thoughts() -> None:
    session = session_of(talker(thinks=False))

    found = run_shapes(session)

    assert found is not None
    assert "reasoning" not in found.note
    assert "reasoning apart from content: no answer could be judged" in session.seen.not_tested


@pytest.mark.parametrize("key", ["regex", "structured_outputs", "guided_regex", "grammar"])
def test_letters_that_are_the_targets_hold_in_every_dialect(key: str) -> None:
    found = run_grammar(session_of(talker(key=key)))

    assert found is not None
    assert found.fails == ""
    assert found.note.startswith(key)
    assert len(found.tests) == 3
    assert min(found.tests.values()) > 1e-4


def test_letters_hold_where_the_space_before_them_is_a_token_of_its_own() -> None:
    found = run_grammar(session_of(talker("space_apart")))

    assert found is not None
    assert found.fails == ""
    assert min(found.tests.values()) > 1e-4


def test_letters_outside_the_grammar_are_illegal_texts() -> None:
    found = run_grammar(session_of(talker("unmasked")))

    assert found is not None
    assert "illegal texts" in found.fails


def test_letters_that_are_never_drawn_are_another_choice_among_legal_ones() -> None:
    found = run_grammar(session_of(talker("greedy_letters")))

    assert found is not None
    assert found.fails == ""
    assert found.tests["letters, favourite"] < 1e-6


def test_a_wrong_letter_at_temperature_zero_is_told_from_a_near_tie() -> None:
    found = run_grammar(session_of(talker("wrong_letters")))

    assert found is not None
    assert "letters at temperature 0 are not the target's" in found.fails


def test_json_outside_its_schema_is_illegal() -> None:
    found = run_grammar(session_of(talker("bad_json")))

    assert found is not None
    assert "pink" in found.fails


@pytest.mark.parametrize(("key", "said"), [(None, "refuses them"), ("", "ignores them")])
def test_a_server_without_grammars_is_said_to_have_none(key: str | None, said: str) -> None:
    session = session_of(talker(key=key))

    run_grammar(session)

    assert any(said in text and "regular" in text for text in session.seen.not_tested)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slip", "claim"), [("stop_left", "chat shapes"), ("unmasked", "grammars")]
)
def test_a_broken_text_is_a_violation_with_a_suspect_of_its_own(slip: str, claim: str) -> None:
    *_, last = run_battery(talker(slip), VerifyOptions(sizes=SIZES))

    assert isinstance(last, VerdictReady)
    document = last.document
    assert document.verdict == "violated", document.findings
    assert [c.name for c in document.claims if c.verdict == "violated"] == [claim]
    assert document.suspects


@pytest.mark.slow
def test_a_server_whose_texts_are_right_holds_in_the_whole_battery() -> None:
    *_, last = run_battery(talker(), VerifyOptions(sizes=SIZES))

    assert isinstance(last, VerdictReady)
    held = {c.name for c in last.document.claims if c.verdict == "holds"}
    assert {"chat shapes", "grammars"} <= held, last.document.findings


@pytest.mark.parametrize(
    ("slips", "verdict"), [((), "inconclusive"), (("unmasked",), "violated")], ids=str
)
def test_a_server_without_token_ids_is_convicted_by_its_texts_and_never_cleared(
    slips: tuple[str, ...], verdict: str
) -> None:
    server = Talker(slips=frozenset(slips), lacks=frozenset({"ids"}))
    *_, last = run_battery(server, VerifyOptions(sizes=SIZES))

    assert isinstance(last, VerdictReady)
    document = last.document
    assert document.verdict == verdict, document.findings
    assert document.evidence == "text"
    assert {c.name for c in document.claims} == {"chat shapes", "grammars"}
    assert any("no token ids" in text for text in [document.reason, *document.not_tested])
