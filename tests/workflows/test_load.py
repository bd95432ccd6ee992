"""`specbench load` against a server that knows the truth."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specbench.errors import HostError, InputError
from specbench.loadgen import drive
from specbench.model.load import DriveProgress, RequestRecord, ServiceLevels
from specbench.workflows.load import LevelFinished, LoadOptions, ServerSeen, measure
from specbench.workflows.self_test import self_test, truth_load
from specbench.workflows.truth_server import (
    build,
    compare,
    first_error_us,
    read_log,
    serving,
    undisturbed,
)
from tests.loadgen.scripted import good, rows

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler"
    ),
]
PATTERN = [1, 3, 2, 4]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("truth"))


@pytest.fixture
def speculative(server: Path, tmp_path: Path) -> Iterator[str]:
    """A server that takes 5 ms a verify step and gives 1, 3, 2, 4 tokens in turn."""
    options = ["--ttft-us", "10000", "--gap-us", "5000", "--pattern", ",".join(map(str, PATTERN))]
    with serving(server, tmp_path / "truth.jsonl", options) as port:
        yield f"http://127.0.0.1:{port}"


def finished(options: LoadOptions) -> list[LevelFinished]:
    return [event for event in measure(options) if isinstance(event, LevelFinished)]


def test_levels_report_what_the_server_did(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "truth.jsonl"
    options = ["--ttft-us", "9000", "--gap-us", "10000", "--pattern", ",".join(map(str, PATTERN))]
    with serving(server, log, options, prefix=undisturbed()) as port:
        events = list(
            measure(
                LoadOptions(
                    url=f"http://127.0.0.1:{port}",
                    concurrency=(4, 1),
                    requests=8,
                    max_tokens=61,
                    keep=tmp_path,
                )
            )
        )
    truths = read_log(log)

    seen = next(event for event in events if isinstance(event, ServerSeen))
    levels = [event for event in events if isinstance(event, LevelFinished)]
    assert (seen.engine, seen.model, seen.algorithm) == ("sglang", "truth", "EAGLE")
    assert [level.concurrency for level in levels] == [1, 4]
    for level in levels:
        columns = level.columns
        assert (columns["n_requests"], columns["n_failed"]) == (8, 0)
        assert columns["accept_len"] == pytest.approx(np.mean(PATTERN))
        assert columns["output_tokens"] == 8 * 61
        measured = [row for row in rows(Path(level.rows or "")) if row.phase == "measured"]
        sent = [truths[row.rid].at_ns for row in measured]
        tpot_ms = np.median([(at[-1] - at[0]) / 60 / 1e6 for at in sent])
        assert columns["tpot_ms_p50"] == pytest.approx(tpot_ms, rel=0.005)
        assert level.accuracy.stamp == "kernel"


@pytest.mark.parametrize("api", ["chat", "generate", "completions"])
def test_rows_agree_with_the_truth_chunk_by_chunk(api: str, server: Path, tmp_path: Path) -> None:
    log, sink = tmp_path / "log", tmp_path / "rows"
    options = ["--ttft-us", "5000", "--gap-us", "3000", "--pattern", "1,3,2,4", "--step"]
    with serving(server, log, options) as port:
        job = truth_load(tmp_path, port, 6, 12, 40, processes=1, api=api)  # type: ignore[arg-type]
        *_, report = drive(job, sink)
    found, truths = rows(sink), read_log(log)

    errors = compare(found, truths)

    assert not isinstance(report, DriveProgress)
    assert (errors.requests, errors.miscounted) == (12, 0)
    assert np.percentile(errors.gap, 50) < 1000
    for row in found:
        assert sum(row.chunk_tokens) == row.output_tokens == 40
        steps = truths[row.rid].tokens[1:]
        assert row.spec_verify_ct == len(steps)
        assert sum(row.spec_histogram or []) == len(steps)


def test_an_open_loop_is_one_level(speculative: str) -> None:
    (level,) = finished(LoadOptions(url=speculative, rate=50, requests=20, max_tokens=8))

    assert (level.rate, level.concurrency) == (50, None)
    assert level.columns["n_requests"] == 20


@pytest.mark.parametrize(("limit", "share"), [(1e6, 1.0), (1e-3, 0.0)])
def test_goodput_is_the_rate_of_requests_within_the_levels(
    limit: float, share: float, speculative: str
) -> None:
    slo = ServiceLevels(e2e_ms=limit)

    (level,) = finished(
        LoadOptions(url=speculative, concurrency=(2,), requests=4, max_tokens=5, slo=slo)
    )

    columns = level.columns
    seconds = columns["output_tokens"] / columns["tok_s"]
    met = share * columns["n_requests"]
    assert columns["goodput_rps"] == pytest.approx(met / seconds)


def test_a_search_for_service_levels_ends_between_what_meets_and_what_misses(
    server: Path, tmp_path: Path
) -> None:
    options = ["--ttft-us", "2000", "--gap-us", "1000"]
    with serving(server, tmp_path / "log", options) as port:
        never, always = (
            finished(
                LoadOptions(
                    url=f"http://127.0.0.1:{port}", concurrency=(4,), requests=8, max_tokens=20,
                    slo=ServiceLevels(e2e_ms=limit), search=True,
                )
            )
            for limit in (1.0, 1e6)
        )  # fmt: skip

    assert [level.concurrency for level in never] == [1]
    assert never[0].slo_missed is not None
    assert "e2e_ms_p90" in never[0].slo_missed[0]
    assert [level.concurrency for level in always] == [1, 2, 4]
    assert all(level.slo_missed == () for level in always)


def test_a_search_without_levels_is_refused() -> None:
    with pytest.raises(InputError, match="needs service levels"):
        list(measure(LoadOptions(url="http://127.0.0.1:9", search=True)))


def test_rows_are_kept_when_asked(speculative: str, tmp_path: Path) -> None:
    options = LoadOptions(
        url=speculative, concurrency=(2,), requests=4, max_tokens=5, keep=tmp_path / "kept"
    )

    (level,) = finished(options)

    assert level.rows is not None
    assert len(rows(Path(level.rows))) == 6  # two of them warm-up


def test_a_saturation_search_stops_by_itself(server: Path, tmp_path: Path) -> None:
    options = ["--ttft-us", "2000", "--gap-us", "1000"]
    with serving(server, tmp_path / "log", options) as port:
        levels = finished(
            LoadOptions(
                url=f"http://127.0.0.1:{port}",
                concurrency=(4,),
                saturate=True,
                requests=8,
                max_tokens=20,
            )
        )

    assert [level.concurrency for level in levels][:3] == [1, 2, 4]


def test_the_self_test_holds_its_claims(tmp_path: Path) -> None:
    (limit,) = self_test([8])

    assert limit.streams == 8
    assert limit.miscounted == 0
    assert limit.claim_held >= 0.9  # 16 requests: one may be the hundredth
    assert limit.cpu_us_per_event > 0


def test_nobody_there_is_one_sentence_and_status_4() -> None:
    with pytest.raises(HostError, match="no answer") as caught:
        list(measure(LoadOptions(url="http://127.0.0.1:1")))

    assert caught.value.exit_code == 4


@pytest.mark.parametrize("url", ["", "127.0.0.1:30000", "file:///etc/passwd"])
def test_a_url_that_is_none_is_wrong_input(url: str) -> None:
    with pytest.raises(InputError, match="not the URL of a server"):
        list(measure(LoadOptions(url=url)))


def test_a_dataset_that_does_not_exist_is_wrong_input() -> None:
    with pytest.raises(InputError):
        list(measure(LoadOptions(url="http://127.0.0.1:1", dataset="builtin:nonsense")))


def test_errors_are_client_minus_truth(server: Path) -> None:
    from specbench.workflows.truth_server import Truth  # noqa: PLC0415 - used here only

    truth = Truth("r", 1_000, [51_000, 61_000, 71_000], [1, 1, 1])
    record = RequestRecord(rid="r", prompt_id="p", intended_ns=0, chunk_ns=[52_000, 61_000, 72_000])

    errors = compare([record], {"r": truth})

    assert first_error_us(52_000, truth) == 2.0
    assert errors.ttft.tolist() == [2.0]
    assert errors.gap.tolist() == [1.0, 1.0]
    assert callable(good)
