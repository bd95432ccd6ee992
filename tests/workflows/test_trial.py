"""What a trial makes of its host: a network cut, a reboot, foreign load, power."""

from dataclasses import replace
from pathlib import Path

import pytest

from specbench.backends.backend import Ask
from specbench.backends.products import backend_for
from specbench.model.load import Prompt
from specbench.model.telemetry import GpuSummary, HostSummary
from specbench.workflows import trial
from specbench.workflows.prepare import RunOptions, prepare
from specbench.workflows.recording_open import open_recording
from tests.launchers.tinyserve import commit, git, repository
from tests.workflows.fakes import MATRIX, OOM, FakeLab, run


@pytest.mark.parametrize(("drive_from", "status"), [("here", "failed"), ("host", "ok")])
def test_a_trial_whose_load_came_over_a_connection_that_was_gone_is_no_measurement(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch, drive_from: str, status: str
) -> None:
    monkeypatch.setattr(trial, "CHECK_EVERY_S", 0.0)
    hosts = options.matrix.with_name("hosts.yaml")
    hosts.write_text(f"hosts: {{local: {{address: far, drive_from: {drive_from}}}}}\n")
    fake = FakeLab()
    fake.driver_cpus = None if drive_from == "host" else 0.0
    reach = iter([True, True])
    fake.out_of_reach = lambda: next(reach, False)

    run(replace(options, hosts=hosts), fake.lab())

    sealed = open_recording(options.results).sealed
    assert [each.status for each in sealed] == [status, "ok", "ok", "ok"]
    assert sealed[0].reason == ("the host was out of reach for a while" if status != "ok" else "")


@pytest.mark.parametrize("place", ["matrix", "host"])
@pytest.mark.process
def test_a_branch_that_moved_is_other_code_and_the_commit_served_is_in_the_recording(
    options: RunOptions, tmp_path: Path, place: str
) -> None:
    url = f"git+file://{repository(tmp_path / 'r', 'one')}"
    entry = f"files: ['{url}@main#subdirectory=python']"
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(f"hosts: {{local: {{{entry if place == 'host' else ''}}}}}\n")
    options.matrix.write_text(MATRIX + (f"{entry}\n" if place == "matrix" else ""))
    asked = replace(options, hosts=hosts)
    head = git(tmp_path / "r", "rev-parse", "HEAD")

    run(asked, FakeLab().lab())
    same = prepare(asked).plan
    commit(tmp_path / "r", "two")
    moved = prepare(asked).plan

    assert not any(reason.will_run for reason in same.reasons)
    assert {reason.reason for reason in moved.reasons} == {"changed since: files"}
    assert head in (open_recording(options.results).path / "manifest.json").read_text()


def test_a_trial_waits_for_a_host_out_of_reach_before_it_blames_its_requests(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "CHECK_EVERY_S", 0.0)
    fake = FakeLab()
    looks = iter([None, None, OOM])
    reach = iter([True, True])
    fake.death = lambda: next(looks, None)
    fake.out_of_reach = lambda: next(reach, False)

    run(options, fake.lab())

    first = open_recording(options.results).sealed[0]
    assert (first.status, first.reason) == ("failed", "the server died: CUDA out of memory")


def test_a_verdict_that_a_cut_network_ended_blames_the_network_and_waits_for_it(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "CHECK_EVERY_S", 0.0)
    fake = FakeLab()
    fake.document = None
    reach = iter([True, True, True])
    fake.out_of_reach = lambda: next(reach, False)

    run(replace(options, verdicts_only="quick"), fake.lab())

    (sealed,) = open_recording(options.results).sealed
    assert sealed.status == "failed"
    assert sealed.reason.startswith("the host was out of reach for a while: the server does not")
    assert list(reach) == []


def test_what_the_host_did_is_in_columns_and_much_of_it_by_others_a_flag(
    options: RunOptions,
) -> None:
    fake = FakeLab()
    fake.host = HostSummary(
        n=5, load_1min=3.0, cpu_pct=60.0, foreign_cpu_pct=25.0, mem_available_mib=4096.0
    )

    run(options, fake.lab())
    trials = open_recording(options.results).trials

    assert set(trials["host_foreign_cpu_pct"]) == {25.0}
    assert set(trials["host_mem_available_mib"]) == {4096.0}
    assert all("foreign_load" in flags.split(",") for flags in trials["flags"])


def test_power_energy_and_temperature_of_the_trial_are_columns_and_throttling_a_flag(
    options: RunOptions,
) -> None:
    fake = FakeLab()
    fake.gpus = GpuSummary(n=9, power_w=700.0, temp_c_max=81.0, throttled=True)

    run(options, fake.lab())

    recording = open_recording(options.results)
    trials = recording.trials
    assert list(trials["energy_j_per_token"]) == list(700.0 / trials["tok_s"])
    assert all(sealed.client["load_avg_1min"] >= 0.0 for sealed in recording.sealed)
    assert set(trials["gpu_power_w"]) == {700.0}
    assert set(trials["gpu_temp_c_max"]) == {81.0}
    assert all("thermal" in flags.split(",") for flags in trials["flags"])


@pytest.mark.parametrize("engine", ["vllm", "llamacpp", "openai"])
def test_the_engine_of_a_matrix_reaches_the_requests_that_are_measured(
    engine: str, options: RunOptions
) -> None:
    plain = MATRIX.replace("[ar, dflash]", "ar").replace("  budget: 7\n", "")
    options.matrix.write_text(f"{plain}server: {{engine: {engine}}}\n")
    fake = FakeLab()

    run(options, fake.lab())
    job = fake.jobs[0]
    ask = Ask(prompt=Prompt(prompt_id="p", text="Hello"), sampling=job.sampling, rid="r")
    sent = backend_for(job.target.engine).request(ask).body

    assert {each.target.engine for each in fake.jobs} == {engine}
    assert b"return_spec_tokens_details" not in sent
    assert b'"rid"' not in sent
