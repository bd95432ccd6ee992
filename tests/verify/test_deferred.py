"""Deferred scoring: a speculative server is recorded, and judged later by a plain one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from specbench.errors import InputError, ServiceError
from specbench.model.verdict import VerdictDocument
from specbench.verify.deferred import score_recording
from specbench.verify.events import VerdictReady
from specbench.verify.handshake import shake_hands
from specbench.verify.recorded_outputs import record_outputs
from specbench.verify.reference import read_reference
from specbench.verify.wire import Scored
from tests.verify.fake_server import FakeServer
from tests.verify.test_battery import OPTIONS

NO_SCORES = frozenset({"score", "logprobs"})


class NeverScores(FakeServer):
    """Fails the test if it is asked for scores."""

    def score_all(self, jobs: Sequence[tuple[tuple[int, ...], int]], top: int) -> list[Scored]:
        raise AssertionError("a recording must not ask this server for scores")


def record(path: Path, server: FakeServer) -> Path:
    server.concurrency = OPTIONS.concurrency
    record_outputs(server, shake_hands(server), OPTIONS, path)
    return path


def verdict(path: Path, plain: FakeServer) -> VerdictDocument:
    *_, last = score_recording(plain, OPTIONS, read_reference(path))
    assert isinstance(last, VerdictReady)
    return last.document


def plain(**fields: object) -> FakeServer:
    return FakeServer(speculative=False, seed=9, **fields)


def test_a_clean_server_that_cannot_score_holds_by_anothers_scores(tmp_path: Path) -> None:
    path = record(tmp_path / "spec.jsonl", NeverScores(lacks=NO_SCORES))

    document = verdict(path, plain())

    assert document.verdict == "holds", document.findings
    assert document.server["speculative_algorithm"] == "FAKE"
    assert document.reference["scored_by"]["speculative_algorithm"] is None
    assert "relative to this server's own prefill" not in document.findings
    assert document.stats["recorded_tokens"] > 3000
    assert any("frozen contexts" in text for text in document.not_tested)


def test_greedy_verification_is_violated_at_t_above_zero_by_the_recording_alone(
    tmp_path: Path,
) -> None:
    server = FakeServer(lacks=NO_SCORES, faults=frozenset({"greedy_verify"}))

    document = verdict(record(tmp_path / "spec.jsonl", server), plain())

    found = {c.name: c.verdict for c in document.claims}
    assert document.verdict == "violated"
    assert found["sampled T=1"] == "violated"
    assert {v for n, v in found.items() if n.startswith(("greedy", "top_k=1"))} == {"holds"}
    assert "verification is greedy" in document.suspects[0].text


def test_wrong_tokens_at_temperature_zero_are_witnessed_by_the_scoring_server(
    tmp_path: Path,
) -> None:
    server = FakeServer(lacks=NO_SCORES, faults=frozenset({"batch_garbage"}))

    document = verdict(record(tmp_path / "spec.jsonl", server), plain())

    assert document.verdict == "violated"
    assert document.witnesses
    assert "nat below the target's own choice" in document.reason


@pytest.mark.parametrize("lacks", [NO_SCORES, frozenset[str]()])
def test_another_model_is_said_and_never_called_a_violation_of_that_server(
    tmp_path: Path, lacks: frozenset[str]
) -> None:
    path = record(tmp_path / "spec.jsonl", FakeServer(lacks=lacks))

    document = verdict(path, plain(target=1))

    assert document.verdict == "inconclusive", document.reason
    assert "another target" in document.reason


def test_counters_that_do_not_add_up_are_found_in_a_recording_too(tmp_path: Path) -> None:
    server = FakeServer(lacks=NO_SCORES, faults=frozenset({"counters_lie"}))

    document = verdict(record(tmp_path / "spec.jsonl", server), plain())

    assert document.integrity


def test_a_server_that_dies_leaves_a_recording_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "spec.jsonl"

    with pytest.raises(ServiceError, match=r"stopped answering.*\(in ") as caught:
        record(path, FakeServer(lacks=NO_SCORES, dies_after=200))

    document = verdict(path, plain())
    assert "spec.jsonl" in str(caught.value.hint)
    assert document.verdict == "inconclusive"
    assert "cut short" in document.reason
    assert document.claims


def test_a_speculative_server_does_not_score_and_a_recording_is_no_reference(
    tmp_path: Path,
) -> None:
    path = record(tmp_path / "spec.jsonl", FakeServer(lacks=NO_SCORES))

    with pytest.raises(InputError, match="speculates as well"):
        verdict(path, FakeServer())


def test_a_recording_of_another_version_is_refused(tmp_path: Path) -> None:
    path = record(tmp_path / "spec.jsonl", FakeServer(lacks=NO_SCORES))
    reference = read_reference(path)
    rows = [
        {**row, "asks": [{**a, "max_tokens": a["max_tokens"] + 1} for a in row["asks"]]}
        if row["kind"] == "batch"
        else row
        for row in reference.rows
    ]

    with pytest.raises(InputError, match="asked for something else"):
        list(score_recording(plain(), OPTIONS, replace(reference, rows=tuple(rows))))
