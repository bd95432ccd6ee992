"""What too few or too many requests mean is said before anything is started."""

import pytest

from specbench.config import parse_matrix
from specbench.planning import expand
from specbench.planning.requests import request_notices

MATRIX = """\
name: m
model: {path: m, served_name: m}
hosts: [local]
factors: {algorithm: [ar], concurrency: [%s]}
workload: {requests: %d}
"""


def notices(concurrency: str, requests: int, held: int = 111) -> list[str]:
    matrix = parse_matrix(MATRIX % (concurrency, requests), "m.yaml")
    cells = expand(matrix, datasets={"builtin:mixed": "x"})
    return list(request_notices(matrix, cells, {"builtin:mixed": held}))


def test_eight_requests_a_slot_are_enough() -> None:
    assert notices("1, 4, 8", 64) == []


@pytest.mark.parametrize(
    ("concurrency", "requests", "said"),
    [
        ("1, 8, 16", 64, "fewer than 8 for each slot at concurrency 16"),
        ("1, 64", 32, "32 requests can never keep 64 in flight"),
        ("1", 200, "each trial asks whole passes over them, 222 requests"),
    ],
)
def test_what_will_be_flagged_is_said_before(concurrency: str, requests: int, said: str) -> None:
    (notice,) = notices(concurrency, requests)

    assert said in notice
