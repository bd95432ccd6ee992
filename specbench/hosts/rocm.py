"""What rocm-smi says of AMD GPUs, read from its JSON. Pure.

The names of its fields have changed from release to release; those of ROCm 5 to 6.4 are known here,
from outputs that their owners published. Nothing in this file was tried on an AMD GPU.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from specbench.model.telemetry import Gpu, GpuProcess, GpuSample

SAMPLE = [
    *("--showuse", "--showmeminfo", "vram", "--showpower", "--showtemp", "--showclocks", "--json"),
]
LIST = ["--showproductname", "--showdriverversion", "--showmeminfo", "vram", "--json"]
PROCESSES = ["--showpids", "--json"]

_POWER = (
    "Current Socket Graphics Package Power (W)",
    "Average Graphics Package Power (W)",
)
# The junction is the hottest point; it is what the driver throttles by.
_TEMPERATURE = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
_NAME = ("Card Series", "Card series", "Device Name", "Card Model", "Card model")
_CLOCK = ("sclk clock speed:", "sclk clock speed")
_USED = ("VRAM Total Used Memory (B)",)


def read_gpus(text: str) -> tuple[Gpu, ...] | None:
    """Read the output for LIST; None where there is no card in it."""
    document = _decode(text)
    driver = str(_section(document, "system").get("Driver version", ""))
    cards = tuple(
        Gpu(
            index=index,
            name=str(_first(card, _NAME) or ""),
            driver=driver,
            memory_mib=_mib(card, ("VRAM Total Memory (B)",)),
        )
        for index, card in _cards(document)
    )
    return cards or None


def read_processes(text: str) -> tuple[GpuProcess, ...] | None:
    """Read the output for PROCESSES; those that hold no memory of a GPU are left out.

    A process reads `"PID4711": "name, GPUs, bytes of VRAM, ..."`. None for what is no such output.
    """
    document = _decode(text)
    if not document:
        return None
    found = []
    for key, value in _section(document, "system").items():
        fields = [field.strip() for field in str(value).split(",")]
        pid = re.fullmatch(r"PID(\d+)", key)
        if pid and len(fields) > 2 and (_number(fields[2]) or 0) > 0:
            held = _number(fields[2]) or 0.0
            found.append(GpuProcess(pid=int(pid[1]), name=fields[0], memory_mib=held / 2**20))
    return tuple(found)


def read_samples(text: str, unix_s: float) -> list[GpuSample]:
    """Read the output for SAMPLE: one sample a card; what a card does not tell stays empty."""
    return [
        GpuSample(
            unix_s=unix_s,
            gpu=index,
            util_pct=_number(card.get("GPU use (%)")),
            mem_used_mib=_mib(card, _USED),
            power_w=_first_number(card, _POWER),
            temp_c=_first_number(card, _TEMPERATURE),
            sm_mhz=_first_number(card, _CLOCK),
        )
        for index, card in _cards(_decode(text))
    ]


def _decode(text: str) -> Mapping[str, Any]:
    """Decode the JSON object; warnings about sleeping devices may stand before it."""
    try:
        document = json.loads(text[text.find("{") :])
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _cards(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    found = ((re.fullmatch(r"card(\d+)", key), value) for key, value in document.items())
    return [(name[1], card) for name, card in found if name and isinstance(card, dict)]


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name)
    return section if isinstance(section, dict) else {}


def _first(card: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((card[name] for name in names if card.get(name) not in (None, "N/A")), None)


def _first_number(card: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    return next((number for name in names if (number := _number(card.get(name))) is not None), None)


def _mib(card: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    number = _first_number(card, names)
    return None if number is None else number / 2**20


def _number(value: object) -> float | None:
    """Read `19.0`, `(173Mhz)`; None for N/A, with or without a reason behind it."""
    number = re.match(r"\(?(-?\d+(?:\.\d+)?)", str(value))
    return float(number[1]) if number else None
