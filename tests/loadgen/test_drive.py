"""A drive from the outside: rows, phases, windows, errors for the reader, and clean ends."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from specbench.errors import DriveFailed, HostError
from specbench.loadgen import drive
from specbench.model.load import (
    Closed,
    DriveProgress,
    DriveReport,
    Open,
    Replay,
    Stop,
    Target,
)
from tests.loadgen.scripted import (
    DONE,
    GOOD,
    HEAD,
    chunk,
    finish,
    good,
    make_load,
    rows,
    run,
    serving,
    stream,
    with_target,
    word,
)

pytestmark = pytest.mark.process


def workers_of(pid: int) -> list[str]:
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [
        line for line in listed.stdout.splitlines() if "specbench.loadgen.hotpath.worker" in line
    ]


def test_every_request_becomes_one_row_with_the_servers_counts(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=3),
            requests=9,
            keep_text=True,
        )

        report, found = run(load, tmp_path / "rows")

    assert report.requests == len(found) == 9
    assert {row.text for row in found} == {"abcd"}
    assert {tuple(row.chunk_tokens) for row in found} == {(1, 2, 1)}
    assert {row.output_sha256 for row in found} == {found[0].output_sha256}
    assert len({row.rid for row in found}) == 9
    assert sorted(row.prompt_id for row in found) == sorted(f"p{n % 7}" for n in range(9))
    assert {row.slot for row in found} <= {0, 1, 2}


def test_times_of_a_row_are_in_order(tmp_path: Path) -> None:
    with serving(good) as server:
        report, found = run(
            make_load(tmp_path, f"http://127.0.0.1:{server.port}"), tmp_path / "rows"
        )

    for row in found:
        times = (row.intended_ns, row.written_ns, row.first_byte_ns, row.last_token_ns, row.end_ns)
        assert None not in times
        assert list(times) == sorted(times)  # type: ignore[type-var]
    assert report.measured_start_ns <= found[0].intended_ns
    assert report.measured_end_ns >= found[-1].end_ns  # type: ignore[operator]


def test_warm_up_runs_into_the_measured_phase(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=2),
            requests=8,
            warmup_requests=4,
        )

        report, found = run(load, tmp_path / "rows")

    warm = [row for row in found if row.phase == "warmup"]
    measured = [row for row in found if row.phase == "measured"]
    assert (len(warm), len(measured)) == (4, 8)
    assert report.measured_start_ns <= min(row.intended_ns for row in measured)
    assert report.window_start_ns is not None
    assert report.window_end_ns is not None
    assert report.measured_start_ns <= report.window_start_ns < report.window_end_ns


def test_each_turn_through_the_prompts_has_its_own_salt(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=14, salt="trial")

        run(load, tmp_path / "rows")

        salts = [
            msgspec.json.decode(sent.split(b"\r\n\r\n")[1])["cache_salt"]
            for sent in server.requests
        ]
    assert salts == ["trial.0"] * 7 + ["trial.1"] * 7


@pytest.mark.parametrize("processes", [1, 2])
def test_as_many_requests_as_prompts_ask_each_once_whatever_warmed_up(
    processes: int, tmp_path: Path
) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=2),
            requests=10,
            warmup_requests=3,
            warmup_prompts=2,
            processes=processes,
        )

        _, found = run(load, tmp_path / "rows")

    measured = [(row.prompt_id, row.prompt_pass) for row in found if row.phase == "measured"]
    warm = [(row.prompt_id, row.prompt_pass) for row in found if row.phase == "warmup"]
    assert sorted(measured) == [(f"p{n}", tick) for n in range(2, 7) for tick in (0, 1)]
    assert sorted(warm) == [("p0", 0), ("p0", 1), ("p1", 0)]


def test_several_processes_share_the_requests(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=4),
            requests=10,
            processes=2,
        )

        report, found = run(load, tmp_path / "rows")

    assert sorted(int(row.rid.rsplit("-", 1)[1]) for row in found) == list(range(10))
    assert {row.worker for row in found} == {0, 1}
    assert report.accuracy.processes == 2


def test_an_open_loop_counts_from_the_intended_send(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Open(rate=100, process="constant"),
            requests=20,
        )

        report, found = run(load, tmp_path / "rows")

    intended = sorted(row.intended_ns for row in found)
    assert intended == [number * 10_000_000 for number in range(20)]
    assert all((row.written_ns or 0) >= row.intended_ns for row in found)
    assert report.accuracy.start_late_us_p50 is not None


def test_a_bound_on_requests_in_flight_makes_sends_late_and_says_so(tmp_path: Path) -> None:
    def slow(connection: socket.socket, number: int) -> None:
        server.closing_or(0.05)
        good(connection, number)

    with serving(slow) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Open(rate=1000, process="constant", max_in_flight=1),
            requests=4,
        )

        _, found = run(load, tmp_path / "rows")

    assert len(server.requests) == 4
    assert max((row.written_ns or 0) - row.intended_ns for row in found) > 100_000_000


def test_a_replay_ends_with_its_trace(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Replay(offsets_s=(0.0, 0.02, 0.03)),
            requests=None,
        )

        report, found = run(load, tmp_path / "rows")

    assert sorted(row.intended_ns for row in found) == [0, 20_000_000, 30_000_000]
    assert report.requests == 3


@pytest.mark.parametrize(
    "stop", [Stop(seconds=0.3), Stop(tokens=40), Stop(seconds=0.3, on_end="abort")]
)
def test_time_and_tokens_end_a_drive(stop: Stop, tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", stop=stop)

        report, found = run(load, tmp_path / "rows")

    assert len(found) == report.requests > 0
    assert sum(row.output_tokens or 0 for row in found) >= min(stop.tokens or 1, 40)
    assert not report.interrupted


def test_what_does_not_drain_in_time_is_aborted(tmp_path: Path) -> None:
    with serving(lambda connection, number: server.hang()) as server:
        stop = Stop(seconds=0.2, drain_timeout_s=0.2)
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", stop=stop)

        _, found = run(load, tmp_path / "rows")

    assert [(row.status, row.reason) for row in found] == [("aborted", "aborted")]


def test_closing_the_generator_leaves_aborted_rows_and_no_process(tmp_path: Path) -> None:
    def hang(connection: socket.socket, number: int) -> None:
        connection.sendall(HEAD + chunk(GOOD[0]))
        server.hang()

    with serving(hang) as server:
        load = make_load(
            tmp_path, f"http://127.0.0.1:{server.port}", shape=Closed(concurrency=3), requests=9
        )
        events = drive(load, tmp_path / "rows")
        first = next(events)

        events.close()

    assert isinstance(first, DriveProgress)
    assert first.in_flight == 3
    found = rows(tmp_path / "rows")
    assert [row.status for row in found] == ["aborted"] * 3
    assert {len(row.chunk_ns) for row in found} == {1}
    assert workers_of(os.getpid()) == []


def test_a_parent_that_is_killed_takes_its_workers_along(tmp_path: Path) -> None:
    with serving(lambda connection, number: server.hang()) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}")
        (tmp_path / "load.json").write_bytes(msgspec.json.encode(load))
        code = (
            "import msgspec, pathlib, sys\n"
            "from specbench.loadgen import drive\n"
            "from specbench.model.load import LoadSpec\n"
            "folder = pathlib.Path(sys.argv[1])\n"
            "load = msgspec.json.decode((folder / 'load.json').read_bytes(), type=LoadSpec)\n"
            "for _ in drive(load, folder / 'rows'): print('.', flush=True)\n"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        parent.stdout.readline()
        worker = workers_of(parent.pid)[0].split()[0]

        parent.kill()
        parent.wait()
        parent.stdout.close()
        for _ in range(100):
            if not Path(f"/proc/{worker}").exists():
                break
            server.closing_or(0.05)

    assert not Path(f"/proc/{worker}").exists()
    assert [row.status for row in rows(tmp_path / "rows")] == ["aborted"]


def test_a_server_that_goes_away_becomes_rows(tmp_path: Path) -> None:
    def last_words(connection: socket.socket, number: int) -> None:
        good(connection, number)
        server.close()

    with serving(last_words) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=3)

        _, found = run(load, tmp_path / "rows")

    assert [row.status for row in found] == ["ok", "failed", "failed"]
    assert found[-1].reason == "connect_refused"


def test_a_killed_worker_breaks_the_load_off_and_is_named_with_its_signal(tmp_path: Path) -> None:
    with serving(lambda connection, number: server.hang()) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}")
        events = drive(load, tmp_path / "rows")
        next(events)
        os.kill(int(workers_of(os.getpid())[0].split()[0]), signal.SIGKILL)

        with pytest.raises(DriveFailed, match="a load worker was killed by SIGKILL"):
            list(events)

    assert workers_of(os.getpid()) == []


def test_a_full_disk_is_one_sentence_and_status_4(tmp_path: Path) -> None:
    with serving(good) as server, pytest.raises(HostError, match="No space left"):
        run(make_load(tmp_path, f"http://127.0.0.1:{server.port}"), Path("/dev/full"))

    assert workers_of(os.getpid()) == []


def test_uncounted_rows_are_counted_by_the_tokenizer_only_when_asked(tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        if server.requests[-1].startswith(b"POST /tokenize "):
            body = b'{"tokens":[1,2,3],"count":3}'
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        else:
            connection.sendall(stream([word("abc"), finish(), DONE]))

    with serving(script) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}")
        _, silent = run(load, tmp_path / "silent")
        _, asked = run(msgspec.structs.replace(load, retokenise=True), tmp_path / "asked")

    assert [(row.output_tokens, row.count_source) for row in silent] == [(None, "")] * 2
    assert [(row.output_tokens, row.count_source) for row in asked] == [(3, "retokenised")] * 2
    assert [(row.reason, row.text, row.chunk_tokens) for row in asked] == [
        ("no_usage", None, [])
    ] * 2


def test_rows_are_appended_and_never_overwritten(tmp_path: Path) -> None:
    sink = tmp_path / "rows"
    sink.write_bytes(b'{"rid":"earlier","prompt_id":"p"}\n')
    with serving(good) as server:
        _, found = run(make_load(tmp_path, f"http://127.0.0.1:{server.port}"), sink)

    assert [row.rid for row in found[:1]] == ["earlier"]
    assert len(found) == 3


def test_a_target_with_spaces_in_its_model_is_only_data(tmp_path: Path) -> None:
    name = 'a "model"\n$(reboot)'
    with serving(good) as server:
        report, _ = run(with_target(tmp_path, server.port, model=name), tmp_path / "rows")

    assert isinstance(report, DriveReport)
    assert msgspec.json.decode(server.requests[0].split(b"\r\n\r\n")[1])["model"] == name
    assert isinstance(Target(url="http://h", model=name), Target)
