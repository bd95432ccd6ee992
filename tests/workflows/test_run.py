"""A run from the matrix to the recording, on a lab without servers."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from specbench.errors import DriveFailed, HostError, InputError, RecordingError
from specbench.model.event import (
    BlockFailed,
    HostFailed,
    TrialFinished,
    TrialProgress,
)
from specbench.model.load import Closed, LoadSpec, RequestRecord
from specbench.model.service import LoadFailure
from specbench.model.verdict import VerdictDocument
from specbench.recording import Recording, Writer
from specbench.recording.entries import BlockEnded, TrialSealed
from specbench.workflows import trial
from specbench.workflows.prepare import RunOptions, prepare
from specbench.workflows.recording_open import open_recording
from specbench.workflows.run import run_matrix
from tests.workflows.fakes import MATRIX, OOM, FakeLab, answered, finish, refused, run


def sealings(recording: Recording) -> list[str]:
    return [entry.trial_id for entry in recording.journal if isinstance(entry, TrialSealed)]


def test_each_server_is_launched_once_and_each_trial_sealed_once(options: RunOptions) -> None:
    fake = FakeLab()

    finished = finish(run(options, fake.lab()))

    assert (finished.measured, finished.failed, finished.exit_status) == (4, 0, 0)
    assert [line for line in fake.log if line.startswith("start")] == ["start ar", "start dflash"]
    recording = open_recording(options.results)
    assert len(sealings(recording)) == len(set(sealings(recording))) == 4
    assert set(recording.trials["accept_len"]) == {1.0, 4.0}


def test_the_journal_tells_how_long_each_server_took_to_end_and_its_bound(
    options: RunOptions,
) -> None:
    run(options, FakeLab().lab())

    ends = [e for e in open_recording(options.results).journal if isinstance(e, BlockEnded)]

    assert len({entry.block_id for entry in ends}) == 2
    assert all(0 <= (entry.seconds or 0) < (entry.bound_s or 0) for entry in ends)


def test_the_same_command_again_measures_nothing(options: RunOptions) -> None:
    run(options, FakeLab().lab())
    second = FakeLab()

    finished = finish(run(options, second.lab()))

    assert (finished.measured, finished.already_done, finished.exit_status) == (0, 4, 0)
    assert second.log == []


@pytest.mark.parametrize("whose", ["matrix", "host"])
def test_a_changed_patch_under_the_same_name_is_measured_again(whose: str, tmp_path: Path) -> None:
    patch = tmp_path / "patch.py"
    entry = f"files: ['{patch}:/opt/p.py']"
    (tmp_path / "m.yaml").write_text(MATRIX + (entry if whose == "matrix" else ""))
    (tmp_path / "hosts.yaml").write_text(
        f"hosts: {{local: {{{entry if whose == 'host' else ''}}}}}"
    )
    options = RunOptions(
        matrix=tmp_path / "m.yaml", hosts=tmp_path / "hosts.yaml", results=tmp_path / "results"
    )
    patch.write_text("x = 1")
    run(options, FakeLab().lab())
    same = prepare(options).plan
    patch.write_text("x = 2")

    changed = prepare(options).plan

    assert same.trials == ()
    assert {reason.reason for reason in changed.reasons} == {"changed since: files"}
    assert len(changed.trials) == 4


def test_a_patch_that_is_not_there_is_wrong_input_with_its_place(options: RunOptions) -> None:
    options.matrix.write_text(MATRIX + "files: ['no.py:/p.py']\n")

    with pytest.raises(InputError, match=r"no\.py: No such file") as caught:
        prepare(options)

    assert caught.value.where == f"{options.matrix}:10:1"


def test_the_last_server_of_a_host_is_left_running_where_that_is_asked_for(
    options: RunOptions,
) -> None:
    fake = FakeLab()

    finished = finish(run(replace(options, keep_service=True), fake.lab()))

    ends = [line for line in fake.log if line.startswith(("stop", "keep"))]
    assert ends == ["stop ar", "keep dflash"]
    assert finished.kept == {"local": "http://127.0.0.1:30000"}


def test_a_last_server_that_failed_is_not_left_running(options: RunOptions) -> None:
    fake = FakeLab()
    fake.fails_to_load = lambda spec: OOM if spec.speculative else None

    finished = finish(run(replace(options, keep_service=True), fake.lab()))

    assert finished.kept == {}
    assert fake.log[-2:] == ["stop dflash", "close local"]


def test_fresh_starts_a_new_recording(options: RunOptions) -> None:
    run(options, FakeLab().lab())

    again = RunOptions(matrix=options.matrix, results=options.results, fresh=True)
    finished = finish(run(again, FakeLab().lab()))

    assert finished.measured == 4
    assert len(list(options.results.iterdir())) == 2


def test_an_interrupted_run_stops_its_server_and_goes_on_where_it_was(options: RunOptions) -> None:
    fake = FakeLab()
    with closing(run_matrix(options, fake.lab())) as events:
        finished = 0
        for event in events:
            finished += isinstance(event, TrialFinished)
            if finished and isinstance(event, TrialProgress):
                break

    assert fake.log.count("close local") == 1
    starts = sum(line.startswith("start") for line in fake.log)
    assert starts == sum(line.startswith("stop") for line in fake.log)
    run(options, FakeLab().lab())
    recording = open_recording(options.results)
    assert len(sealings(recording)) == len(set(sealings(recording))) == 4


def test_a_server_that_does_not_load_fails_its_trials_and_the_others_go_on(
    options: RunOptions,
) -> None:
    fake = FakeLab()
    fake.fails_to_load = lambda spec: OOM if spec.speculative else None

    events = run(options, fake.lab())

    assert finish(events).exit_status == 3
    assert [event.failure.pattern for event in events if isinstance(event, BlockFailed)] == [
        "cuda_oom"
    ]
    trials = open_recording(options.results).trials
    assert list(trials.loc[trials["status"] == "failed", "reason"]) == ["CUDA out of memory"] * 2
    assert (trials["status"] == "ok").sum() == 2


def test_failed_trials_are_tried_again_by_the_same_command(options: RunOptions) -> None:
    broken = FakeLab()
    broken.fails_to_load = lambda spec: OOM if spec.speculative else None
    run(options, broken.lab())
    mended = FakeLab()

    finished = finish(run(options, mended.lab()))

    assert (finished.measured, finished.already_done, finished.exit_status) == (2, 2, 0)
    assert [line for line in mended.log if line.startswith("start")] == ["start dflash"]
    assert list(open_recording(options.results).trials["status"]) == ["ok"] * 4


def test_a_server_that_dies_under_load_is_launched_once_more(options: RunOptions) -> None:
    fake = FakeLab()
    deaths = iter([OOM])
    fake.death = lambda: next(deaths, None)

    events = run(options, fake.lab())

    finished = finish(events)
    assert (finished.measured, finished.failed) == (3, 1)
    starts = [line for line in fake.log if line.startswith("start")]
    assert len(starts) == 3
    assert len(set(starts)) == 2


@pytest.mark.parametrize(
    ("seen", "pattern", "reason"),
    [
        ([None, OOM], "cuda_oom", "the server died: CUDA out of memory"),
        ([None], trial.BROKE_OFF, "a load worker was killed by SIGKILL"),
    ],
)
def test_a_load_that_breaks_off_is_a_failed_block_with_last_lines_and_one_more_launch(
    options: RunOptions,
    monkeypatch: pytest.MonkeyPatch,
    seen: list[LoadFailure | None],
    pattern: str,
    reason: str,
) -> None:
    monkeypatch.setattr(trial, "DEATH_SHOWS_S", 0.05)
    fake = FakeLab()
    breaks, looks = iter([DriveFailed("a load worker was killed by SIGKILL")]), iter(seen)
    fake.breaks_off = lambda: next(breaks, None)
    fake.death = lambda: next(looks, None)

    events = run(options, fake.lab())

    finished = finish(events)
    (failed,) = [event for event in events if isinstance(event, BlockFailed)]
    reasons = list(open_recording(options.results).trials["reason"])
    assert (finished.measured, finished.failed, finished.exit_status) == (3, 1, 3)
    assert [event for event in events if isinstance(event, HostFailed)] == []
    assert (failed.failure.pattern, reasons.count(reason)) == (pattern, 1)
    assert failed.failure.evidence == (OOM.evidence if pattern == "cuda_oom" else ("started",))
    assert sum(line.startswith("start") for line in fake.log) == 3


def test_a_fault_of_the_host_itself_still_ends_its_plan(options: RunOptions) -> None:
    fake = FakeLab()
    fake.breaks_off = lambda: HostError("No space left on device")

    finished = finish(run(options, fake.lab()))

    assert (finished.measured, finished.exit_status) == (0, 4)


def test_a_trial_whose_requests_all_fail_is_failed_and_says_so(options: RunOptions) -> None:
    fake = FakeLab()
    fake.records = refused

    finished = finish(run(options, fake.lab()))

    assert finished.exit_status == 3
    trials = open_recording(options.results).trials
    assert set(trials["reason"]) == {"none of 3 requests succeeded: 3 × http 5xx"}  # noqa: RUF001
    assert trials["tok_s"].isna().all()


def test_an_unreachable_host_leaves_its_trials_to_be_measured(options: RunOptions) -> None:
    fake = FakeLab()
    fake.unreachable = True

    events = run(options, fake.lab())

    assert finish(events).exit_status == 4
    assert [event.host for event in events if isinstance(event, HostFailed)] == ["local"]
    assert finish(run(options, FakeLab().lab())).measured == 4


def test_a_recording_in_use_is_refused_before_anything_starts(options: RunOptions) -> None:
    run(options, FakeLab().lab())
    recording = open_recording(options.results)
    fake = FakeLab()

    with Writer.resume(recording.path), pytest.raises(RecordingError, match="being written by"):
        run(options, fake.lab())

    assert fake.log == []


def test_every_arm_gets_the_same_prompts_in_the_same_order(
    options: RunOptions,
) -> None:
    fake = FakeLab()
    orders: dict[int, list[bytes]] = {}
    answered = fake.records

    def remember(job: LoadSpec) -> list[RequestRecord]:
        assert isinstance(job.shape, Closed)
        orders.setdefault(job.shape.concurrency, []).append(Path(job.prompts_path).read_bytes())
        return answered(job)

    fake.records = remember
    run(options, fake.lab())

    assert all(len(set(order)) == 1 and len(order) == 2 for order in orders.values())


def test_every_trial_of_a_run_asks_the_same_prompts_and_each_round_has_its_own_order(
    tmp_path: Path,
) -> None:
    matrix = MATRIX.replace("temperature: 0.0", "temperature: [0.0, 1.0]")
    matrix = matrix.replace("requests: 3", "requests: 9")
    (tmp_path / "m.yaml").write_text(matrix + "replicates: {launches: 2, trials: 2}\n")
    fake = FakeLab()
    asked: list[tuple[str, ...]] = []
    counted: set[int] = set()

    def remember(job: LoadSpec) -> list[RequestRecord]:
        lines = Path(job.prompts_path).read_bytes().splitlines()[job.warmup_prompts :]
        asked.append(tuple(json.loads(line)["prompt_id"] for line in lines))
        counted.add(job.stop.requests or 0)
        return answered(job)

    fake.records = remember
    run(RunOptions(matrix=tmp_path / "m.yaml", results=tmp_path / "R"), fake.lab())

    assert len(asked) == 2 * 2 * 2 * 2 * 2  # arms, temperatures, loads, launches, trials
    assert {frozenset(order) for order in asked} == {frozenset(asked[0])}
    assert counted == {len(asked[0])} == {9}
    assert len(set(asked)) == 2 * 2 * 2 * 2  # every arm has the same orders


def test_warm_up_asks_prompts_that_are_not_measured(options: RunOptions) -> None:
    fake = FakeLab()

    run(options, fake.lab())

    for job in fake.jobs:
        assert job.warmup_prompts == job.warmup_requests > 0


def test_wrong_files_start_nothing(options: RunOptions) -> None:
    options.matrix.write_text(MATRIX.replace("temperature", "temprature"))

    with pytest.raises(InputError, match="temprature"):
        prepare(options)

    assert not options.results.exists()


def test_a_host_has_one_part_in_a_run(options: RunOptions, tmp_path: Path) -> None:
    options.matrix.write_text(MATRIX.replace("[local]", "[a, b]"))
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {nodes: [b]}, b: {}}")

    with pytest.raises(InputError, match="host 'b' has two parts"):
        prepare(replace(options, hosts=tmp_path / "hosts.yaml"))


def test_prompts_that_the_api_cannot_carry_start_nothing(options: RunOptions) -> None:
    options.matrix.write_text(MATRIX.replace("{requests: 3", "{api: generate, requests: 3"))

    with pytest.raises(InputError, match="applies no chat template") as caught:
        prepare(options)

    assert "m.yaml:9:" in str(caught.value)


def test_verdicts_are_planned_after_timed_trials_and_travel_with_the_speed(
    options: RunOptions,
) -> None:
    options.matrix.write_text(MATRIX + "verify: quick\n")
    fake = FakeLab()

    finished = finish(run(options, fake.lab()))

    assert finished.exit_status == 0
    assert [line for line in fake.log if line.startswith("verify")] == [
        "verify http://127.0.0.1:9 quick"
    ]
    assert fake.log[-3].startswith("verify")
    trials = open_recording(options.results).trials
    assert set(trials.loc[trials["algorithm"] == "dflash", "lossless"]) == {"holds"}
    assert trials.loc[trials["algorithm"] == "ar", "lossless"].isna().all()


@pytest.mark.parametrize(("verdict", "status"), [("violated", 1), ("inconclusive", 5)])
def test_a_verdict_decides_the_exit_status(
    options: RunOptions, verdict: Literal["violated", "inconclusive"], status: int
) -> None:
    options.matrix.write_text(MATRIX + "verify: quick\n")
    fake = FakeLab()
    fake.document = VerdictDocument(verdict=verdict)

    assert finish(run(options, fake.lab())).exit_status == status


def test_verdicts_alone_launch_only_speculative_servers(options: RunOptions) -> None:
    fake = FakeLab()
    asked = replace(options, verdicts_only="quick")

    finished = finish(run(asked, fake.lab()))

    assert [line for line in fake.log if line.startswith("start")] == ["start dflash"]
    assert finished.measured == 1
