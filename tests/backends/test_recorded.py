"""Logs and answers of real servers, as they were recorded, are understood."""

import json
from pathlib import Path

import pytest

from specbench.backends.products import backend_for
from specbench.model.load import Api, RequestRecord
from specbench.model.service import LoadProgress

FIXTURES = Path(__file__).parents[1] / "fixtures"
STEPS = {  # (steps, accepted, tokens) of the stream of /v1/completions
    "vllm-0.32.0-eagle": (10, 13, 24),
    "vllm-0.32.0-ngram": (22, 1, 24),
    "llamacpp-b11434-draft-model": (12, 11, 24),
    "llamacpp-b11434-ngram-mod": (23, 0, 24),
}
FAILURES = {
    "vllm-0.32.0-failures": {
        "bad_flag": "bad_flag",
        "missing_model": "missing_weights",
        "missing_draft": "missing_weights",
        "port_in_use": "port_in_use",
        "killed_when_ready": "exited",
    },
    "llamacpp-b11434-failures": {
        "bad_flag": "bad_flag",
        "missing_model": "missing_weights",
        "missing_draft": "missing_draft",
        "port_in_use": "port_in_use",
        "killed_while_loading": "exited",
    },
    "sglang-0.5.23-failures": {
        "bad_flag": "bad_flag",
        "missing_model": "missing_weights",
        "port_in_use": "port_in_use",
    },
}


def folder(name: str) -> Path:
    path = FIXTURES / name
    if not path.is_dir():
        pytest.skip(f"{name} was not recorded here")
    return path


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in FAILURES.items() for case in cases]
)
def test_a_failure_of_a_real_server_is_named(name: str, case: str) -> None:
    where = folder(name)
    status = json.loads((where / "outcomes.json").read_text())[case]["exit_status"]
    lines = (where / f"{case}.log").read_text(errors="replace").splitlines()

    failure = backend_for(name.split("-", maxsplit=1)[0]).diagnose(lines, exit_status=status)

    assert failure is not None
    assert failure.pattern == FAILURES[name][case]


@pytest.mark.parametrize("name", STEPS)
def test_a_load_is_followed_and_a_healthy_log_holds_no_failure(name: str) -> None:
    backend = backend_for(name.split("-", maxsplit=1)[0])
    lines = (folder(name) / "server.log").read_text(errors="replace").splitlines()
    reader = backend.log_reader()

    phases = {event.phase for line in lines if isinstance(event := reader.read(line), LoadProgress)}

    assert {"starting", "weights", "binding"} <= phases
    assert not any(map(reader.is_fatal, lines))
    assert backend.diagnose(lines) is None


@pytest.mark.parametrize("name", STEPS)
def test_the_steps_of_a_recorded_stream_count_those_without_a_draft(name: str) -> None:
    stream = (folder(name) / "completions_stream.sse").read_bytes()
    payloads = [line[5:].strip() for line in stream.splitlines() if line.startswith(b"data:")]
    record = RequestRecord(rid="r", prompt_id="p")
    api: Api = "completions"
    reader = backend_for(name.split("-", maxsplit=1)[0]).reader(api, record, keep_text=True)

    reader.events(payloads, list(range(len(payloads))))
    reader.finish()

    assert reader.failure is None
    assert (record.spec_verify_ct, record.spec_accepted, record.output_tokens) == STEPS[name]
