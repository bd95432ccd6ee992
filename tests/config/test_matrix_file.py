"""Laws of matrix files: what decodes, and what each mistake is told, at which place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.config import parse_matrix, read_matrix
from specbench.errors import InputError, InputErrors
from specbench.model.matrix import Matrix

CONTRACT = """\
name: kimi-ddtree
model: {path: /models/Kimi-K2.6, served_name: kimi}
hosts: [b300]
factors:
  algorithm: [ar, dflash, ddtree]
  budget: [7, 16, 32]
  topk: [1, 4]
  tp: 8
  temperature: [0.0, 0.6, 1.0]
  concurrency: [1, 8, 64]
exclude: ["algorithm == 'ar' and budget != none"]
algorithms:
  ddtree:
    flags: {speculative-algorithm: DDTREE, speculative-ddtree-budget: "{budget}"}
    env: {}
server: {flags: {mem-fraction-static: 0.85, max-running-requests: 64}, env: {}}
workload: {dataset: builtin:mixed, requests: 200, max_tokens: 512, warmup: auto, window: steady}
control: ar
replicates: {launches: 2, trials: 3}
"""


def errors_of(text: str) -> list[tuple[str, str]]:
    """Return (line:column, message) of every error."""
    with pytest.raises(InputError) as caught:
        parse_matrix(text, "m.yaml")
    found = caught.value
    errors = found.errors if isinstance(found, InputErrors) else (found,)
    return [(str(error.where).removeprefix("m.yaml:"), str(error)) for error in errors]


def test_the_matrix_of_the_contract_is_read() -> None:
    matrix = parse_matrix(CONTRACT)

    assert matrix.factors["tp"] == (8,)
    assert matrix.factors["temperature"] == (0.0, 0.6, 1.0)
    assert matrix.replicates.launches == 2
    assert matrix.source == CONTRACT


def test_scalars_are_one_level_and_whole_numbers_become_floats_where_floats_are_meant() -> None:
    text = CONTRACT.replace("[0.0, 0.6, 1.0]", "1").replace("hosts: [b300]", "hosts: b300")

    matrix = parse_matrix(text)

    assert matrix.factors["temperature"] == (1.0,)
    assert isinstance(matrix.factors["temperature"][0], float)
    assert matrix.hosts == ("b300",)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("temperature:", "@@temprature:", ["unknown factor", "'temperature'"]),
        ("ddtree]", "@@ddtre]", ["unknown algorithm", "'ddtree'"]),
        ("control: ar", "control: @@arr", ["control", "'ar'"]),
        ("window: steady", "window: @@stedy", ["choices", "'steady'"]),
        ("workload:", "@@worklod:", ["unknown key", "'workload'"]),
        ("requests: 200", "requests: @@'200'", ["whole number", "'200'"]),
        ("requests: 200", "requests: @@0", [">= 1"]),
        ("requests: 200", "requests: @@true", ["whole number"]),
        ("[1, 8, 64]", "[1, @@1e3]", ["whole number", "1000.0"]),
        ("[1, 8, 64]", "[1, @@no]", ["YAML 1.1", "false"]),
        ("[1, 8, 64]", "@@[]", ["no levels"]),
        ("[1, 8, 64]", "[1, 8, @@1]", ["twice"]),
        ("[7, 16, 32]", "[7, @@none]", ["null"]),
        ("[7, 16, 32]", "[@@[7], 16]", ["a level is"]),
        ("algorithm == 'ar' and", "algorithm @@= 'ar' and", ["=="]),
        ('!= none"]', '!= @@nune"]', ["unknown factor", "quoted"]),
        ("and budget", "and @@bugdet", ["unknown factor", "'budget'"]),
        (
            "  ddtree:\n    flags: {sp",
            '  ddtree:\n    flags: {@@x: "{nix}", sp',
            ["needs", "'nix'"],
        ),
        ('"{budget}"', '"@@{budget"', ["unmatched"]),
        ('"{budget}"', '"{budget @@$}"', ["'$'"]),
        ("speculative-ddtree-budget", "@@--speculative-ddtree-budget", ["without"]),
        ("hosts: [b300]", "hosts: @@[]", ["no host"]),
        ("hosts: [b300]", "hosts: [a, @@a]", ["twice"]),
        ("served_name: kimi", "served_name: @@'a:b'", ["served_name"]),
        ("name: kimi-ddtree", "name: @@../../etc", ["name"]),
        ("name: kimi-ddtree", "name: @@7", ["a text", 'quote it: "7"']),
        ("name: kimi-ddtree", 'name: @@"a\\e[31m"', ["control character"]),
        ("  tp: 8", "  @@host: 8", ["column"]),
        ("  tp: 8", "  @@t-p: 8", ["cannot be a factor", "'t_p'"]),
        ("  tp: 8", "  @@in: 8", ["cannot be a factor"]),
        ("64}, env: {}}", "64}, env: {@@HF_TOKEN: abc}}", ["secret"]),
        ("64}, env: {}}", "64}, env: {@@'A B': abc}}", ["variable"]),
        ("trials: 3}", "trials: @@3000}", ["<= 1000"]),
        ("64}, env: {}}", '64}, env: {A: "x-@@${HOME}"}}', ["environment", "hosts.yaml"]),
        ("  ddtree:\n", "  ddtree:\n    since: @@new\n", ["no version"]),
        ("  ddtree:\n", "  @@'../x': {extends: ar}\n  ddtree:\n", ["no name of an algorithm"]),
        ('"{budget}"', """'@@{"a": {budget}}'""", ["unmatched", "{{"]),
    ],
)
def test_each_mistake_is_told_at_its_place(old: str, new: str, words: list[str]) -> None:
    marked = CONTRACT.replace(old, new, 1)
    before = marked[: marked.index("@@")]
    place = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"

    errors = errors_of(marked.replace("@@", ""))

    assert place in [where for where, _ in errors]
    message = next(message for where, message in errors if where == place)
    assert all(word in message for word in words), message


def test_several_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    text = (
        CONTRACT.replace("topk:", "topq:")
        .replace("control: ar", "control: a")
        .replace("requests: 200", "requests: x")
    )

    places = [where for where, _ in errors_of(text)]

    assert places == sorted(places, key=lambda place: [int(part) for part in place.split(":")])
    assert {"7:3", "17:46", "18:10"} <= set(places)


def test_a_secret_is_never_repeated() -> None:
    text = CONTRACT.replace("env: {}}", "env: {API_KEY: sk-12345}}")

    assert "sk-12345" not in str(errors_of(text))


def test_include_adds_cells_and_keeps_by_expression() -> None:
    extra = "include: [{algorithm: ddtree, budget: [64, 128]}, 'topk != 4']\n"

    matrix = parse_matrix(CONTRACT + extra)

    assert matrix.include == ({"algorithm": ("ddtree",), "budget": (64, 128)},)
    assert matrix.keep == ("topk != 4",)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("include: [{algorithm: ddtree, bugdet: 3}]\n", "no factor of the matrix"),
        ("include: [3]\n", "include takes"),
        ("include: {a: 1}\n", "must be a list"),
        ("when: {topk: 'bugdet > 3'}\n", "unknown factor 'bugdet'"),
        ("when: {nix: 'budget > 3'}\n", "'nix' is no factor"),
        ("when: {algorithm: 'budget > 3'}\n", "always applies"),
        ("verify: maybe\n", "choices"),
        ("seed: -1\n", ">= 0"),
        ("common: {tp: {flags: {TP: 3}}}\n", "no flag name"),
        ("common: {tp: {flags: {x: '{nix}'}}}\n", "needs the factor 'nix'"),
        ("common: {tp: {versions: {new: {x: 1}}}}\n", "no range of versions"),
        ("common: {tp: {versions: {'>=1': {x: '{'}}}}\n", "unmatched"),
    ],
)
def test_mistakes_in_other_sections(extra: str, words: str) -> None:
    assert any(words in message for _, message in errors_of(CONTRACT + extra))


def test_anchors_may_stand_under_keys_that_begin_with_x() -> None:
    text = CONTRACT.replace("workload: {", "workload: {<<: *w, ").replace("requests: 200, ", "")

    matrix = parse_matrix("x-w: &w {requests: 5, max_tokens: 9}\n" + text)

    assert matrix.workload.requests == 5
    assert matrix.workload.max_tokens == 512


@pytest.mark.parametrize(
    ("written", "depth"), [("true", "default"), ("false", None), ("quick", "quick")]
)
def test_verify_takes_a_depth_or_a_switch(written: str, depth: str | None) -> None:
    assert parse_matrix(f"{CONTRACT}verify: {written}\n").verify == depth


def test_a_flag_without_a_name_of_its_own_becomes_a_factor_through_a_template() -> None:
    text = CONTRACT.replace("tp: 8", "my_flag: [1, 2]").replace(
        "max-running", 'my-flag: "{my_flag}", max-running'
    )

    assert parse_matrix(text).factors["my_flag"] == (1, 2)


def test_places_lead_later_errors_back_to_the_file() -> None:
    matrix = parse_matrix(CONTRACT, "m.yaml")

    assert matrix.places["factors.tp"] == "m.yaml:8:3"
    assert matrix.places["exclude.0"] == "m.yaml:11:11"


def test_files_of_any_bytes_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a 'b'\n$(c).yaml"
    path.write_bytes(CONTRACT.encode())

    assert read_matrix(path).name == "kimi-ddtree"


FRAGMENTS = (
    *("", "[", "]", "{", "}", ": ", "- ", "\n", "\t", "'", '"', "null", "no", "1e3", "*a", "&a "),
    *("<<: ", "!!int ", "{budget", "== ", "-1", "99999999999999999999"),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Return the contract's matrix with pieces cut out, put in and exchanged."""
    lines = CONTRACT
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(lines)))
        end = min(len(lines), start + draw(st.integers(0, 12)))
        piece = draw(
            st.one_of(
                st.sampled_from(FRAGMENTS),
                st.text(max_size=4),
            )
        )
        lines = lines[:start] + piece + lines[end:]
    return lines


@given(damaged())
def test_a_damaged_matrix_is_read_or_refused_and_never_a_traceback(text: str) -> None:
    outcome: object = None
    try:
        outcome = parse_matrix(text, "m.yaml")
    except InputError as error:
        outcome = str(error)

    assert isinstance(outcome, Matrix) or "m.yaml" in str(outcome)
