"""Laws of rendering levels to a launch."""

from specbench import planning
from specbench.backends.products import backend_for
from specbench.config import parse_matrix
from specbench.model.plan import LaunchSpec
from tests.planning.matrices import BASE


def spec_of(text: str, algorithm: str, version: str | None = None, **levels: object) -> LaunchSpec:
    matrix = parse_matrix(text)
    cell = next(
        cell
        for cell in planning.expand(matrix, version=version)
        if cell.algorithm == algorithm
        and all(cell.levels[name] == level for name, level in levels.items())
    )
    return planning.launch_spec(matrix, cell, version)


def test_equal_budgets_draft_equally_many_tokens() -> None:
    chain = dict(spec_of(BASE, "dflash", budget=7).flags)
    tree = dict(spec_of(BASE, "ddtree", budget=7, topk=4).flags)

    assert chain["speculative-dflash-block-size"] == 8
    assert (tree["speculative-ddtree-budget"], tree["speculative-eagle-topk"]) == (7, 4)


def test_the_control_gets_no_speculative_flag() -> None:
    text = BASE + "server: {flags: {page-size: 1}}\n"
    text = text.replace("  tp:", "  speculative_draft_load_format: [dummy]\n  tp:")

    control = dict(spec_of(text, "ar").flags)
    arm = dict(spec_of(text, "dflash").flags)

    assert not [flag for flag in control if flag.startswith("speculative")]
    assert arm["speculative-draft-load-format"] == "dummy"


def test_running_requests_are_pinned_alike_on_every_arm_and_never_below_the_load() -> None:
    wide = BASE.replace("[1, 8]", "[1, 800]")
    own = BASE + "server: {flags: {max-running-requests: 5}}\n"
    left = BASE + "server: {flags: {max-running-requests: null}}\n"

    pins = [
        {dict(spec_of(text, name).flags).get("max-running-requests") for name in ("ar", "ddtree")}
        for text in (BASE, wide, own, left)
    ]

    assert pins == [{64}, {800}, {5}, {None}]


def test_switches_are_bare_or_left_out() -> None:
    text = BASE.replace("tp: [1, 2]", "cuda_graph: [true, false, null]")

    values = [
        dict(spec_of(text, "ar", cuda_graph=level).flags).get("disable-cuda-graph")
        for level in (True, False, None)
    ]

    assert values == [None, True, None]


def test_zero_is_a_value_and_not_a_switch() -> None:
    text = BASE + "server: {flags: {a: 0, b: 0.0, c: false, d: null, e: true}}\n"

    flags = dict(spec_of(text, "ar").flags)

    assert [flags.get(name, "absent") for name in "abcde"] == [0, 0.0, "absent", "absent", True]


def test_an_upper_case_factor_is_an_environment_variable() -> None:
    text = BASE.replace("tp: [1, 2]", "SGLANG_SIMULATE_ACC_LEN: [1.5, null]")

    assert dict(spec_of(text, "ar").env) == {"SGLANG_SIMULATE_ACC_LEN": "1.5"}
    assert dict(spec_of(text, "ar", SGLANG_SIMULATE_ACC_LEN=None).env) == {}


def test_a_development_build_counts_as_the_release_that_it_leads_to() -> None:
    text = BASE.replace("tp: [1, 2]", "tp: 8\n  attn_dp: [8]")

    built = dict(spec_of(text, "ar", "0.5.21.dev3+gabc").flags)

    assert built["attn-dp-size"] == 8


def test_flags_follow_the_version_of_the_server() -> None:
    text = BASE.replace("tp: [1, 2]", "tp: 8\n  attn_dp: [8]")

    new = dict(spec_of(text, "ar", "0.5.23").flags)
    old = dict(spec_of(text, "ar", "0.5.20").flags)

    assert new["attn-dp-size"] == 8
    assert (old["dp-size"], old["enable-dp-attention"]) == (8, True)
    assert "attn-dp-size" not in old


def test_a_fork_of_an_algorithm_collapses_and_renders_by_its_own_templates() -> None:
    flags = "{algo: X, width: '{budget * 2 + 1}', json: '{{\"k\": {topk}}}'}"
    text = BASE.replace("ddtree]", "mine]") + f"algorithms: {{mine: {{flags: {flags}}}}}\n"

    rendered = dict(spec_of(text, "mine", budget=7, topk=4).flags)

    assert (rendered["width"], rendered["json"]) == (15, '{"k": 4}')


def test_arms_never_share_a_server_and_equal_launches_of_an_arm_do() -> None:
    text = BASE.replace("ddtree]", "again]") + "algorithms: {again: {extends: ar}}\n"
    text = text.replace("tp: [1, 2]", "cuda_graph: [true, null]")

    first, second = spec_of(text, "ar"), spec_of(text, "again")

    assert first.flags == second.flags
    assert first.fingerprint != second.fingerprint
    assert spec_of(text, "ar", cuda_graph=None).fingerprint == first.fingerprint


def test_every_engine_has_its_own_rules_and_no_bound_of_another() -> None:
    matrix = parse_matrix(
        "name: m\nmodel: {path: p, served_name: s}\nserver: {engine: vllm}\n"
        "factors: {algorithm: [ar, draft_model], draft: d, budget: 3, pp: 2}\n"
    )

    cells = planning.expand(matrix, invalid_reason=backend_for("vllm").invalid_reason)

    reasons = {cell.algorithm: cell.invalid for cell in cells}
    flags = dict(planning.launch_spec(matrix, cells[-1]).flags)
    assert reasons["ar"] is None
    assert "pipeline" in (reasons["draft_model"] or "")
    assert "max-running-requests" not in flags
    assert flags["speculative-config.num_speculative_tokens"] == 3
