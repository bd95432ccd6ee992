"""The level of evidence follows the abilities that were tried, and each level convicts."""

from dataclasses import replace
from pathlib import Path

import pytest

from specbench.model.verdict import VerdictDocument
from specbench.verify.battery import open_session, run_battery
from specbench.verify.events import VerdictReady, VerifyNotice
from specbench.verify.handshake import shake_hands
from specbench.verify.levels import ABILITIES, costs, level_of
from specbench.verify.options import BUDGETS, QUICK_DRAWS, VerifyOptions
from specbench.verify.reference import read_reference, record_reference
from tests.verify.fake_server import FakeServer

SMALL = replace(
    BUDGETS["quick"],
    draws=replace(
        QUICK_DRAWS,
        limit=30_000,
        t_eff_pct=30.0,
        excess_greedy_pct=30.0,
        batched=16,
        one=(48, 48),
        hot=(48,),
    ),
)
DRAWS = frozenset({"score", "next_scores", "logprobs"})


def verify(server: FakeServer, **options: object) -> VerdictDocument:
    *_, last = run_battery(server, VerifyOptions(sizes=SMALL, **options))
    assert isinstance(last, VerdictReady)
    return last.document


@pytest.mark.parametrize(
    ("lacks", "level"),
    [
        (frozenset(), "scores"),
        (frozenset({"score"}), "one_token_scores"),
        (DRAWS, "draws"),
        (DRAWS | {"tokenise"}, "draws"),
        (frozenset({"ids"}), "text"),
    ],
)
def test_the_level_is_what_the_tried_abilities_allow(lacks: frozenset[str], level: str) -> None:
    server = shake_hands(FakeServer(lacks=lacks))

    assert server.level == level
    assert server.abilities <= ABILITIES.keys()


def test_every_lack_that_weakens_the_evidence_has_a_price_in_words() -> None:
    everything = frozenset(ABILITIES)

    assert costs(everything) == []
    assert level_of(everything - {"score", "next_scores"}) == "draws"
    for name in ("logit_bias", "logprobs", "n", "flush", "tokenise"):
        assert len(costs(everything - {name})) == 1
    assert any("3.5 times" in text for text in costs(everything - {"score", "next_scores"}))


def test_the_first_words_say_algorithm_level_and_what_is_to_come() -> None:
    events = list(run_battery(FakeServer(lacks=DRAWS), VerifyOptions(sizes=SMALL)))

    first = next(e.text for e in events if isinstance(e, VerifyNotice))
    assert "algorithm FAKE" in first
    assert "evidence by draws" in first
    assert "at most 30000 tokens" in first


def test_a_clean_server_without_scores_is_not_accused_and_names_its_level() -> None:
    document = verify(FakeServer(lacks=DRAWS))

    assert document.verdict != "violated", document.findings
    assert document.evidence == "draws"
    assert "Evidence by draws" in document.findings
    assert document.stats["generated_tokens"] <= 30_000


@pytest.mark.parametrize("lacks", [DRAWS, DRAWS | {"logit_bias"}, DRAWS | {"tokenise", "n"}])
def test_wrong_tokens_in_batches_are_witnessed_without_scores(lacks: frozenset[str]) -> None:
    document = verify(FakeServer(lacks=lacks, faults=frozenset({"batch_garbage"})), fail_fast=True)

    assert document.verdict == "violated", document.findings
    assert document.witnesses[0].margin_nat > 1
    assert document.witnesses[0].token != document.witnesses[0].target_argmax


def test_greedy_verification_is_convicted_by_draws_alone() -> None:
    server = FakeServer(lacks=DRAWS, faults=frozenset({"greedy_verify"}))

    document = verify(server, fail_fast=True)

    assert document.verdict == "violated", document.findings
    claim = next(c for c in document.claims if c.verdict == "violated")
    assert claim.name.startswith("sampled T=1")
    assert "greedily" in claim.finding


def test_one_token_scores_convict_what_full_scores_convict() -> None:
    lacks = frozenset({"score"})

    greedy = verify(FakeServer(lacks=lacks, faults=frozenset({"greedy_verify"})), fail_fast=True)
    garbage = verify(FakeServer(lacks=lacks, faults=frozenset({"batch_garbage"})), fail_fast=True)

    assert greedy.verdict == garbage.verdict == "violated"
    assert greedy.evidence == "one_token_scores"
    assert garbage.witnesses


def test_more_tokens_than_asked_for_are_a_violation_and_stand_in_the_headline() -> None:
    document = verify(FakeServer(lacks=DRAWS, faults=frozenset({"overrun"})), fail_fast=True)

    assert document.verdict == "violated"
    assert {c.name: c.verdict for c in document.claims}["length limits"] == "violated"
    assert "max_new_tokens" in document.findings.splitlines()[0]
    assert document.exit_status == 1


def test_counters_that_lie_stand_in_the_headline_of_a_good_verdict() -> None:
    document = verify(FakeServer(lacks=DRAWS, faults=frozenset({"counters_lie"})))

    assert document.verdict != "violated"
    assert "BUT" in document.findings.splitlines()[0]
    assert document.exit_status == 1


def test_a_dead_draft_is_named_before_the_samples_are_drawn() -> None:
    events = list(
        run_battery(FakeServer(faults=frozenset({"dead_draft"})), VerifyOptions(sizes=SMALL))
    )

    texts = [e.text if isinstance(e, VerifyNotice) else getattr(e, "stage", "") for e in events]
    dead = next(k for k, text in enumerate(texts) if "as good as dead" in text)
    sampled = next(k for k, text in enumerate(texts) if text.startswith("sampled"))
    assert dead < sampled


def test_a_witness_asks_for_the_wrong_token_again_in_a_batch_like_its_own() -> None:
    server = FakeServer(lacks=frozenset({"logit_bias"}), faults=frozenset({"batch_garbage"}))
    document = verify(server, fail_fast=True)

    witness = document.witnesses[0]
    assert witness.shows.startswith("seq 8 | xargs -P 8")
    assert f'"max_new_tokens":{witness.position + 1}' in witness.shows.replace(": ", ":")
    assert "Ask for the wrong token again" in document.findings


def test_a_sampled_violation_by_draws_brings_a_command_whose_counts_show_it() -> None:
    document = verify(FakeServer(lacks=DRAWS, faults=frozenset({"greedy_verify"})), fail_fast=True)

    claim = next(c for c in document.claims if c.verdict == "violated")
    assert claim.shows.count("curl -s") == 2
    assert "Shown again by the counts of" in document.findings


def test_a_reference_that_cannot_be_compared_is_said_to_be_of_no_use(tmp_path: Path) -> None:
    path = tmp_path / "reference.jsonl"
    plain = FakeServer(speculative=False)
    record_reference(open_session(plain, shake_hands(plain), VerifyOptions(sizes=SMALL)), path)
    compared, drawn = FakeServer(lacks=frozenset({"score"})), FakeServer(lacks=DRAWS)

    by_scores, by_draws = (
        list(run_battery(one, VerifyOptions(sizes=SMALL), read_reference(path)))[-1]
        for one in (compared, drawn)
    )

    assert isinstance(by_scores, VerdictReady)
    assert isinstance(by_draws, VerdictReady)
    assert "another target" not in by_scores.document.reason
    assert by_draws.document.verdict != "violated"
    assert any("let a plain server score" in text for text in by_draws.document.not_tested)
