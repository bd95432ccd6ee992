"""One server over several machines: together or not at all, and a death names its node."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError, LoadFailed
from specbench.hosts.agent.supervisor import start_ticks
from specbench.launchers import Service, launcher_for
from specbench.launchers.nodes import AllNodes
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.model.telemetry import GpuSummary, HostSummary
from tests.launchers.conftest import PATIENCE

pytestmark = pytest.mark.process

Make = Callable[..., LaunchSpec]


@pytest.fixture
def pair(local: Host) -> Callable[..., Host]:
    """A host with one more node; `scenario` is what that node's process does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"

    def make(scenario: str | None = None) -> Host:
        env = {"SPECBENCH_TEST_SCENARIO": scenario} if scenario else {}
        second = Host(name="second", url=url, stop_timeout_s=3.0, env=env)
        return msgspec.structs.replace(local, nodes=("second",), node_hosts=(second,))

    return make


def load(host: Host, spec: LaunchSpec, folder: Path) -> Service:
    launcher = launcher_for(host, patience=PATIENCE)
    with closing(launcher), launcher.running(spec, folder) as service:
        list(service.until_ready())
        return service


def ports_are_free(host: Host) -> list[bool]:
    free = []
    for each in (host, *host.node_hosts):
        with socket.socket() as probe:
            address = ("127.0.0.1", int(each.url.rpartition(":")[2]))
            free.append(probe.connect_ex(address) != 0)
    return free


def flag_of(launch: Path, name: str) -> str:
    argv = json.loads(launch.read_text())["argv"]
    return str(argv[argv.index(name) + 1])


def test_each_node_gets_its_rank_and_all_are_stopped(
    pair: Callable[..., Host], spec_of: Make, tmp_path: Path
) -> None:
    host = pair()

    service = load(host, spec_of(), tmp_path)

    launches = [tmp_path / "launch.json", tmp_path / "node-1" / "launch.json"]
    assert [flag_of(launch, "--node-rank") for launch in launches] == ["0", "1"]
    assert {flag_of(launch, "--nnodes") for launch in launches} == {"2"}
    assert {flag_of(launch, "--dist-init-addr") for launch in launches} == {"127.0.0.1:20000"}
    assert len(service.facts.host_facts["nodes"]) == 1
    assert ports_are_free(host) == [True, True]


def test_a_failure_of_another_node_is_told_with_its_own_lines(
    pair: Callable[..., Host], spec_of: Make, tmp_path: Path
) -> None:
    host = pair("oom")

    with pytest.raises(LoadFailed, match=r"node 1 \(second\): CUDA out of memory") as failure:
        load(host, spec_of("slow"), tmp_path)

    assert failure.value.pattern == "cuda_oom"
    assert any("CUDA out of memory" in line for line in failure.value.evidence)
    assert "node-1/server.log" in str(failure.value.hint)
    assert ports_are_free(host) == [True, True]


def test_a_death_of_another_node_between_trials_is_noticed(
    pair: Callable[..., Host], spec_of: Make, tmp_path: Path, own_home: Path
) -> None:
    host = pair()
    launcher = launcher_for(host, patience=PATIENCE)
    port = host.node_hosts[0].url.rpartition(":")[2]

    with closing(launcher), launcher.running(spec_of(), tmp_path) as service:
        list(service.until_ready())
        before = service.check()
        state = json.loads(next(own_home.rglob(f"service-{port}.json")).read_text())
        os.kill(state["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (after := service.check()) is None and time.monotonic() < deadline:
            time.sleep(0.02)

    assert before is None
    assert after is not None
    assert after.cause.startswith("node 1 (second): ")
    assert ports_are_free(host) == [True, True]


def test_a_node_that_cannot_start_leaves_none_running(
    pair: Callable[..., Host], spec_of: Make, tmp_path: Path
) -> None:
    host = pair()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(host.node_hosts[0].url.rpartition(":")[2])))
        taken.listen()

        with pytest.raises(HostError, match="in use by pid"):
            load(host, spec_of(), tmp_path)

    assert ports_are_free(host) == [True, True]


def test_all_nodes_are_kept_and_all_are_replaced(
    pair: Callable[..., Host], spec_of: Make, tmp_path: Path, own_home: Path
) -> None:
    host = pair()
    launcher = launcher_for(host, patience=PATIENCE)
    with closing(launcher), launcher.running(spec_of(), tmp_path / "first") as service:
        list(service.until_ready())
        service.keep()
    kept = [json.loads(path.read_text())["pid"] for path in own_home.rglob("service-*.json")]
    lived = [start_ticks(pid) is not None for pid in kept]

    load(host, spec_of(), tmp_path / "second")

    assert lived == [True, True]
    assert [start_ticks(pid) for pid in kept] == [None, None]
    assert ports_are_free(host) == [True, True]


def test_the_reference_engine_serves_from_rank_0_and_is_healthy_on_the_others(
    pair: Callable[..., Host], tmp_path: Path
) -> None:
    host = pair()
    spec = LaunchSpec(
        fingerprint="f",
        algorithm="ar",
        speculative=False,
        model_path="embedded",
        served_name="embedded",
        command=(sys.executable, "-m", "specbench.engine"),
        flags=(("time-scale", 0.0), ("load-seconds", 0.1)),
    )

    service = load(host, spec, tmp_path)

    assert service.facts.server_info["nnodes"] == 2
    assert "ready to roll" in (tmp_path / "server.log").read_text()
    assert ports_are_free(host) == [True, True]


class Known:
    def __init__(self, gpus: GpuSummary, host: HostSummary | None = None) -> None:
        self._gpus = gpus
        self._host = host or HostSummary(n=0)

    def gpus(self, since_unix_s: float, until_unix_s: float) -> GpuSummary:
        assert since_unix_s < until_unix_s
        return self._gpus

    def host(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary:
        assert since_unix_s < until_unix_s
        return msgspec.structs.replace(self._host, cpu_pct=driver_cpus)


def test_power_of_all_nodes_is_a_sum_and_unknown_where_a_part_is_unknown() -> None:
    hot = Known(GpuSummary(n=2, power_w=600.0, temp_c_max=80.0, throttled=True))
    cool = Known(GpuSummary(n=2, power_w=400.0, temp_c_max=60.0, throttled=False))
    silent = Known(GpuSummary(n=0))

    both = AllNodes([hot, cool]).gpus(0.0, 1.0)
    part = AllNodes([hot, silent]).gpus(0.0, 1.0)

    assert both == GpuSummary(n=4, power_w=1000.0, temp_c_max=80.0, throttled=True)
    assert part == GpuSummary(n=2, power_w=None, temp_c_max=80.0, throttled=True)


def test_the_worst_node_speaks_for_all_and_the_driver_is_on_node_0_alone() -> None:
    calm = HostSummary(n=3, load_1min=0.5, foreign_cpu_pct=1.0, mem_available_mib=900.0)
    busy = HostSummary(n=3, load_1min=4.0, foreign_cpu_pct=40.0, mem_available_mib=100.0)
    nodes = AllNodes([Known(GpuSummary(n=0), calm), Known(GpuSummary(n=0), busy)])

    found = nodes.host(0.0, 1.0, driver_cpus=2.0)

    assert found == HostSummary(
        n=6, load_1min=4.0, cpu_pct=2.0, foreign_cpu_pct=40.0, mem_available_mib=100.0
    )
