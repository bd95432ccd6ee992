from dataclasses import replace
from pathlib import Path

import pytest

from specbench.errors import InputError
from specbench.model.verdict import VerdictDocument
from specbench.verify.battery import open_session, run_battery
from specbench.verify.events import VerdictReady
from specbench.verify.handshake import shake_hands
from specbench.verify.reference import Reference, read_reference, record_reference
from tests.verify.fake_server import FakeServer
from tests.verify.test_battery import OPTIONS, SMALL

SHORT = replace(OPTIONS, sizes=replace(SMALL, sampled=SMALL.sampled[:1], fixed=(0, 0)))


def recorded(path: Path, server: FakeServer) -> Reference:
    record_reference(open_session(server, shake_hands(server), SHORT), path)
    return read_reference(path)


def verify(server: FakeServer, reference: Reference) -> VerdictDocument:
    *_, last = run_battery(server, SHORT, reference)
    assert isinstance(last, VerdictReady)
    return last.document


def test_a_reference_of_the_same_target_is_accepted_and_named(tmp_path: Path) -> None:
    reference = recorded(tmp_path / "ref.jsonl", FakeServer(speculative=False))

    document = verify(FakeServer(seed=5), reference)

    assert document.reference["sha256"] == reference.sha256
    assert "relative to this server's own prefill" not in document.findings
    assert not any("another target" in text for text in [document.reason])


def test_a_reference_of_another_model_makes_the_verdict_inconclusive(tmp_path: Path) -> None:
    reference = recorded(tmp_path / "ref.jsonl", FakeServer(speculative=False, target=1))

    document = verify(FakeServer(), reference)

    assert document.verdict == "inconclusive"
    assert "another target" in document.reason


def test_a_reference_of_another_tokeniser_is_told_apart(tmp_path: Path) -> None:
    class Other(FakeServer):
        def tokenise(self, text: str) -> tuple[int, ...]:
            return super().tokenise(text.upper())

    reference = recorded(tmp_path / "ref.jsonl", Other(speculative=False))

    document = verify(FakeServer(), reference)

    assert document.verdict == "inconclusive"
    assert "tokeniser" in document.reason


@pytest.mark.parametrize("keep", [0, 1, 40, 0.5, 0.99])
def test_a_truncated_reference_is_refused(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "ref.jsonl"
    recorded(path, FakeServer(speculative=False))
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep)] if keep < 1 else raw[: int(keep)])

    with pytest.raises(InputError, match=r"ref\.jsonl"):
        read_reference(path)


def test_a_changed_reference_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ref.jsonl"
    recorded(path, FakeServer(speculative=False))
    path.write_bytes(path.read_bytes().replace(b'"schema":1', b'"schema": 1'))

    with pytest.raises(InputError, match="checksum"):
        read_reference(path)


def test_a_missing_or_binary_reference_is_the_users_mistake(tmp_path: Path) -> None:
    binary = tmp_path / "b"
    binary.write_bytes(b"\xff\xfe\x00" * 9)

    for path in (tmp_path / "none", binary, tmp_path):
        with pytest.raises(InputError):
            read_reference(path)
