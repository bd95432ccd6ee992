import itertools
from dataclasses import replace

import pytest

from specbench.model.verdict import VerdictDocument
from specbench.verify.battery import run_battery
from specbench.verify.events import StageFinished, VerdictReady, VerifyNotice
from specbench.verify.options import HOT, S1, WARM, Budget, VerifyOptions
from specbench.verify.statistics.coverage import CoverageRule
from specbench.verify.statistics.sampled import SampledMargins
from tests.verify.fake_server import FakeServer

pytestmark = pytest.mark.slow

SMALL = Budget(
    limit=14_000,
    margins=SampledMargins(t_eff_pct=30.0, excess_greedy_pct=15.0, garbage_pct=0.5),
    soft_pct=0.5,
    coverage=CoverageRule(rounds=30, rounds_per_depth=2),
    sampled=((S1, 2000), (HOT, 1200), (WARM, 500)),
    length=32,
    alone=4,
    batched=24,
    kernel=12,
    long=1,
    turns=2,
    mixed=4,
    soak=4,
    coins=(12, 10),
    fixed=(8, 64),
    penalties=2,
    filters=4,
    composed=16,
    own=600,
    own_fixed=(6, 48),
)
OPTIONS = VerifyOptions(sizes=SMALL)


def verify(server: FakeServer, options: VerifyOptions = OPTIONS) -> VerdictDocument:
    (document,) = [e.document for e in run_battery(server, options) if isinstance(e, VerdictReady)]
    return document


def verdicts(document: VerdictDocument) -> dict[str, str]:
    return {c.name: c.verdict for c in document.claims}


def test_a_lossless_server_holds_within_a_stated_resolution() -> None:
    document = verify(FakeServer(noise=0.02))

    assert document.verdict == "holds", document.findings
    assert document.exit_status == 0
    assert document.resolution["garbage_pct"] is not None
    assert document.resolution["garbage_pct"] < 0.5
    assert "relative to this server's own prefill" in document.findings
    assert "concurrency 1, twice: all equal" in document.findings
    assert document.stats["generated_tokens"] <= SMALL.limit


def test_greedy_verification_is_violated_at_t_above_zero_and_holds_at_zero() -> None:
    document = verify(FakeServer(faults=frozenset({"greedy_verify"})))

    found = verdicts(document)
    assert document.verdict == "violated"
    assert document.exit_status == 1
    assert found["sampled T=1"] == "violated"
    assert all(found[n] == "holds" for n in found if n.startswith(("greedy", "top_k=1")))
    assert "verification is greedy" in document.suspects[0].text
    assert "of the tokens were taken greedily, not drawn" in document.reason
    assert "margin +-15 %" in document.findings.splitlines()[0]


def test_garbage_in_batches_only_gives_witnesses_and_points_at_batching() -> None:
    document = verify(FakeServer(faults=frozenset({"batch_garbage"})))

    assert document.verdict == "violated"
    assert verdicts(document)["greedy, concurrency 1"] == "holds"
    assert any("batch" in one.text for one in document.suspects)
    witness = document.witnesses[0]
    assert witness.token != witness.target_argmax
    assert witness.margin_nat > 3
    assert witness.curl.startswith("curl -s http://fake/generate")
    assert "batch-dependent kernels" in document.findings


def test_a_temperature_that_is_ignored_shows_only_at_other_temperatures() -> None:
    document = verify(FakeServer(faults=frozenset({"hot"})))

    assert verdicts(document)["sampled T=1"] == "holds"
    assert verdicts(document)["sampled T=2.5 top_k=8"] == "violated"
    assert any("temperature" in one.text for one in document.suspects)


def test_an_ignored_top_p_needs_a_few_requests_and_is_named() -> None:
    options = replace(OPTIONS, fail_fast=True)

    document = verify(FakeServer(faults=frozenset({"no_top_p"})), options)

    assert document.verdict == "violated"
    assert verdicts(document)["top_p"] == "violated"
    assert [one.text for one in document.suspects] == ["top_p is not applied in the verify path"]


def test_a_known_upstream_gap_is_an_exception_and_ends_no_run() -> None:
    options = replace(OPTIONS, fail_fast=True)

    document = verify(FakeServer(faults=frozenset({"no_min_p"})), options)

    assert document.verdict == "holds", document.findings
    assert verdicts(document)["min_p"] == "violated"
    assert "Except, as known upstream: min_p is ignored" in document.findings


def test_integrity_findings_alone_give_status_one() -> None:
    document = verify(FakeServer(faults=frozenset({"counters_lie"})))

    assert document.integrity
    assert document.exit_status == 1


def test_length_limits_that_are_overrun_are_an_integrity_finding() -> None:
    document = verify(FakeServer(faults=frozenset({"overrun"})))

    assert any("max_new_tokens" in i.finding for i in document.integrity)


def test_speculation_that_is_off_is_nothing_to_verify() -> None:
    document = verify(FakeServer(speculative=False))

    assert document.verdict == "inconclusive"
    assert "speculation is off" in document.reason
    assert document.exit_status == 5


def test_lossy_thresholds_need_no_test_unless_asked_for() -> None:
    refused = verify(FakeServer(thresholds=0.9))
    measured = verify(FakeServer(thresholds=0.9), replace(OPTIONS, expect_lossy=True))

    assert refused.verdict == "violated"
    assert "lossy by configuration" in refused.reason
    assert len(measured.claims) > 5


def test_simulated_acceptance_gets_no_verdict_and_is_named() -> None:
    server = FakeServer(environment={"SGLANG_SIMULATE_ACC_LEN": "3.5"})

    document = verify(server)

    assert document.verdict == "inconclusive"
    assert "SGLANG_SIMULATE_ACC_LEN=3.5" in document.reason
    assert server.spent.generated < 50


def test_a_server_that_dies_leaves_an_inconclusive_verdict_with_what_was_found() -> None:
    document = verify(FakeServer(dies_after=60))

    assert document.verdict == "inconclusive"
    assert "cut short" in document.reason
    assert document.claims


def test_a_witness_survives_the_death_of_its_server() -> None:
    server = FakeServer(faults=frozenset({"batch_garbage"}), dies_after=90)

    document = verify(server)

    assert document.verdict == "violated"
    assert document.witnesses


def test_a_restart_during_the_run_is_noticed() -> None:
    document = verify(FakeServer(restarts_after=40))

    assert document.verdict == "inconclusive"
    assert "restarted" in document.reason


def test_without_token_ids_nothing_is_claimed() -> None:
    document = verify(FakeServer(lacks=frozenset({"ids"})))

    assert document.verdict == "inconclusive"
    assert "token ids" in document.reason


def test_without_prompt_logprobs_the_next_tokens_scores_carry_the_verdict() -> None:
    clean = verify(FakeServer(lacks=frozenset({"score"})))
    broken = verify(FakeServer(lacks=frozenset({"score"}), faults=frozenset({"batch_garbage"})))

    assert clean.verdict == "holds", clean.findings
    assert clean.evidence == broken.evidence == "one_token_scores"
    assert broken.verdict == "violated"
    assert broken.witnesses[0].margin_nat > 3


@pytest.mark.parametrize("ability", ["logprobs", "logit_bias"])
def test_a_missing_ability_is_said_to_be_untested(ability: str) -> None:
    document = verify(FakeServer(lacks=frozenset({ability})))

    assert document.verdict == "holds", document.findings
    assert any(("log-prob" if ability == "logprobs" else ability) in t for t in document.not_tested)


def test_other_traffic_is_noticed() -> None:
    events = list(run_battery(FakeServer(busy=3), OPTIONS))

    assert any(isinstance(e, VerifyNotice) and "3 other requests" in e.text for e in events)
    assert isinstance(events[-1], VerdictReady)
    assert "other traffic" in events[-1].document.findings


def test_fail_fast_ends_with_the_first_confirmed_violation() -> None:
    server = FakeServer(faults=frozenset({"batch_garbage"}))

    events = list(run_battery(server, replace(OPTIONS, fail_fast=True)))

    stages = [e.stage for e in events if isinstance(e, StageFinished)]
    assert len(stages) < 6
    assert isinstance(events[-1], VerdictReady)
    assert events[-1].document.verdict == "violated"


def test_every_stage_reports_what_it_cost_and_never_more_than_the_budget() -> None:
    events = [e for e in run_battery(FakeServer(), OPTIONS) if isinstance(e, StageFinished)]

    assert all(a.generated <= b.generated for a, b in itertools.pairwise(events))
    assert events[-1].generated <= SMALL.limit


def test_clean_servers_of_many_seeds_are_not_accused() -> None:
    tiny = replace(SMALL, sampled=((S1, 700), (HOT, 500)), batched=8, fixed=(0, 0), soak=0)
    noise = (0.0, 0.02, 0.05)

    documents = [
        verify(FakeServer(seed=seed, target=seed, noise=noise[seed % 3]), VerifyOptions(sizes=tiny))
        for seed in range(12)
    ]

    assert [d.reason for d in documents if d.verdict == "violated" or d.integrity] == []
