"""AMD GPUs are read from what rocm-smi wrote for people who published it; none was tried here."""

import json
import math

import pytest

from specbench.hosts import rocm
from specbench.hosts.gpus import list_gpus, list_processes
from specbench.model.telemetry import Gpu, GpuProcess, GpuSample
from tests.launchers.scripted import ScriptedShell

# Radeon RX 7900 XTX, henrygd/beszel issue 414 (2025-01).
RX_7900 = (
    '{"card0": {"Temperature (Sensor edge) (C)": "49.0", "Temperature (Sensor junction) (C)": '
    '"49.0", "Temperature (Sensor memory) (C)": "62.0", "Average Graphics Package Power (W)": '
    '"19.0", "GPU use (%)": "0", "VRAM Total Memory (B)": "25753026560", '
    '"VRAM Total Used Memory (B)": "794341376"}}'
)
# Radeon RX 6600 XT in a low-power state, a test of marimo: a warning stands before the object.
RX_6600 = (
    "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n"
    '{"card0": {"GPU use (%)": "0", "VRAM Total Memory (B)": "8573157376", '
    '"VRAM Total Used Memory (B)": "1069268992", "Card Series": "AMD Radeon RX 6600 XT", '
    '"Card Model": "0x73ff", "Card SKU": "N/A", "GUID": "59111", "GFX Version": "gfx1032"}}'
)
# A gfx950 Instinct with a server on it, from a collector's test (2025).
GFX950 = json.dumps(
    {
        "card0": {
            "Temperature (Sensor junction) (C)": "60.0",
            "Current Socket Graphics Package Power (W)": "266.0",
            "sclk clock speed:": "(173Mhz)",
            "GPU use (%)": "99",
            "VRAM Total Memory (B)": "308902100992",
            "VRAM Total Used Memory (B)": "200804560896",
            "Card Model": "0x75b0",
        },
        "system": {
            "Driver version": "6.14.14",
            "PID710898": "sglang::schedul, 1, 200145596416, 2735289460695, 8",
            "PID711000": "rocm-smi, 0, 0, 0, 0",
        },
    }
)
# Instinct MI250 under ROCm 5, whose field names were other ones.
MI250 = json.dumps(
    {
        "card0": {
            "Temperature (Sensor memory) (C)": "43.0",
            "GPU use (%)": "10",
            "Average Graphics Package Power (W)": "89.0",
            "Card series": "AMD INSTINCT MI250 (MCM) OAM AC MBA",
        },
        "card1": {"Average Graphics Package Power (W)": "N/A (Secondary die)"},
        "system": {"Driver version": "6.2.4"},
    }
)
ABSENT = (127, "", "not found")


def test_a_sample_holds_what_the_card_tells() -> None:
    assert rocm.read_samples(RX_7900, 5.0) == [
        GpuSample(
            unix_s=5.0, gpu="0", util_pct=0.0, mem_used_mib=794341376 / 2**20, power_w=19.0,
            temp_c=49.0,
        )
    ]  # fmt: skip


def test_power_temperature_and_clock_have_their_names_of_later_releases() -> None:
    sample = rocm.read_samples(GFX950, 0.0)[0]

    assert (sample.power_w, sample.temp_c, sample.sm_mhz) == (266.0, 60.0, 173.0)
    assert sample.throttle is None


def test_what_a_card_does_not_tell_stays_empty() -> None:
    first, second = rocm.read_samples(MI250, 0.0)

    assert (first.power_w, first.temp_c, first.mem_used_mib) == (89.0, None, None)
    assert (second.gpu, second.power_w, second.util_pct) == ("1", None, None)


def test_warnings_before_the_object_are_no_part_of_it() -> None:
    gpus = rocm.read_gpus(RX_6600)

    assert gpus is not None
    assert [(gpu.name, gpu.driver) for gpu in gpus] == [("AMD Radeon RX 6600 XT", "")]
    assert gpus[0].memory_mib is not None
    assert math.isclose(gpus[0].memory_mib, 8176, rel_tol=0.001)


def test_processes_are_those_that_hold_memory() -> None:
    assert rocm.read_processes(GFX950) == (
        GpuProcess(pid=710898, name="sglang::schedul", memory_mib=200145596416 / 2**20),
    )


def test_rocm_smi_is_asked_where_there_is_no_nvidia_smi() -> None:
    shell = ScriptedShell({"nvidia-smi": ABSENT, "rocm-smi": (0, GFX950, "")})

    gpus, processes = list_gpus(shell), list_processes(shell)

    assert gpus == (
        Gpu(index="0", name="0x75b0", driver="6.14.14", memory_mib=308902100992 / 2**20),
    )
    assert processes is not None
    assert [process.pid for process in processes] == [710898]


@pytest.mark.parametrize("text", ["", "no GPU", "{", "[1]", '{"card0": 7}', '{"system": []}'])
def test_what_is_no_such_output_tells_nothing(text: str) -> None:
    assert rocm.read_gpus(text) is None
    assert rocm.read_samples(text, 0.0) == []
    assert not rocm.read_processes(text)
