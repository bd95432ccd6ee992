"""A request factor is a field of `RequestOptions`: all else follows from there."""

import msgspec
import pytest

from specbench import planning
from specbench.backends.backend import Ask
from specbench.backends.openai import requests
from specbench.config import parse_matrix
from specbench.config.levels import FACTOR_TYPES
from specbench.model.load import Prompt, Sampling, SamplingOptions
from specbench.model.matrix import LOAD_FACTORS, REQUEST_FACTORS, RequestOptions, WorkloadOptions
from specbench.planning.identity import digest, named_by
from specbench.report.cells import REQUEST_SIDE

MATRIX = """\
name: m
model: {path: m, served_name: m}
hosts: [local]
factors: {algorithm: [ar], concurrency: 1, temperature: [0.0, 0.5], top_k: 3}
workload: {min_p: 0.25}
"""


class Later(WorkloadOptions, frozen=True, kw_only=True):
    """The options of some later version of the program."""

    min_tokens: int = 0


def test_a_request_factor_has_a_type_and_a_place_in_reports() -> None:
    assert FACTOR_TYPES.keys() >= REQUEST_FACTORS
    assert set(REQUEST_SIDE) == LOAD_FACTORS | REQUEST_FACTORS
    assert REQUEST_SIDE[:2] == ("concurrency", "rate")


def test_a_setting_that_no_request_of_a_product_carries_makes_a_cell_invalid() -> None:
    text = MATRIX.replace("top_k: 3", "top_k: [-1, 3]").replace("workload: {min_p: 0.25}\n", "")

    for engine, reasons in (("sglang", {None}), ("openai", {None, "top_k"})):
        matrix = parse_matrix(f"{text}server: {{engine: {engine}}}\n", "m.yaml")
        cells = planning.expand(matrix, datasets={"builtin:mixed": "d"})
        assert {
            c.invalid and c.invalid.partition(" no ")[2].split(":")[0] for c in cells
        } == reasons


def test_every_sampling_option_of_a_cell_is_sent() -> None:
    matrix = parse_matrix(MATRIX, "m.yaml")
    cells = planning.expand(matrix, datasets={"builtin:mixed": "d"})

    asked = [planning.asked(matrix, cell) for cell in cells]

    assert [one.sampling.temperature for one in asked] == [0.0, 0.5]
    for one in asked:
        for name in SamplingOptions.__struct_fields__:
            assert getattr(one.sampling, name) == getattr(one.workload, name)


@pytest.mark.parametrize("name", Sampling.__struct_fields__)
def test_every_sampling_field_reaches_a_request(name: str) -> None:
    other = {int: 77, float: 0.125, bool: True}[type(getattr(Sampling(), name))]
    prompt = Prompt(prompt_id="p", text="Hello")

    def sent(sampling: Sampling) -> dict[str, object]:
        return requests.body(Ask(prompt=prompt, sampling=sampling)) | requests.extended(sampling)

    changed = msgspec.structs.replace(Sampling(), **{name: other})
    assert sent(changed) != sent(Sampling())


def test_an_option_that_comes_later_leaves_the_names_of_cells_alone_at_its_default() -> None:
    before = digest(named_by(WorkloadOptions(temperature=0.5)))

    assert digest(named_by(Later(temperature=0.5))) == before
    assert digest(named_by(Later(temperature=0.5, min_tokens=3))) != before


def test_the_first_options_name_a_cell_as_they_always_did() -> None:
    assert digest(named_by(WorkloadOptions())) == "026ec961a3eca10b"


def test_what_is_asked_of_a_server_is_an_entry_of_the_workload_too() -> None:
    assert set(RequestOptions.__struct_fields__) <= set(WorkloadOptions.__struct_fields__)
