"""Service levels as text and in a matrix: what is meant, or refused in words."""

import pytest

from specbench.config import parse_matrix
from specbench.config.service_levels import parse_levels
from specbench.errors import InputError, InputErrors
from specbench.model.load import ServiceLevels

MATRIX = """\
name: m
model: {path: m, served_name: m}
factors: {algorithm: [ar]}
workload: {slo: %s}
"""


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("ttft <= 500 ms and tpot <= 30 ms", ServiceLevels(ttft_ms=500.0, tpot_ms=30.0)),
        ("e2e<=2.5s", ServiceLevels(e2e_ms=2500.0)),
        ("tpot_ms <= 25", ServiceLevels(tpot_ms=25.0)),
    ],
)
def test_levels_are_read_with_their_units(text: str, levels: ServiceLevels) -> None:
    assert parse_levels(text) == levels


@pytest.mark.parametrize(
    "text", ["", "ttft", "ttft < 5", "speed <= 5", "ttft <= -1", "ttft <= 5 h"]
)
def test_what_is_no_level_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a service level"):
        parse_levels(text)


def test_a_latency_is_limited_once() -> None:
    with pytest.raises(InputError, match="twice"):
        parse_levels("ttft <= 5 and ttft <= 6")


def test_a_matrix_has_them_as_numbers() -> None:
    matrix = parse_matrix(MATRIX % "{ttft_ms: 500, tpot_ms: 30}", "m.yaml")

    assert matrix.workload.slo == ServiceLevels(ttft_ms=500.0, tpot_ms=30.0)


@pytest.mark.parametrize(("slo", "said"), [("{tft_ms: 5}", "tft_ms"), ("{ttft_ms: 0}", "slo")])
def test_a_matrix_with_another_level_is_refused(slo: str, said: str) -> None:
    with pytest.raises((InputError, InputErrors), match=said):
        parse_matrix(MATRIX % slo, "m.yaml")
