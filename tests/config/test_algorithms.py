"""Laws of the table of algorithms."""

import pytest

from specbench.config.algorithms import builtin, common_factors, extended
from specbench.errors import InputError
from specbench.expressions.template import compile_template
from specbench.model.matrix import Algorithm

WIDTH = {
    "dflash": "speculative-dflash-block-size",
    "eagle": "speculative-num-draft-tokens",
    "eagle3": "speculative-num-draft-tokens",
    "nextn": "speculative-num-draft-tokens",
    "standalone": "speculative-num-draft-tokens",
    "ngram": "speculative-num-draft-tokens",
}
"""Flags that count the root beside the drafted tokens."""
DRAFTED = {"ddtree": "speculative-ddtree-budget", "dspark": "speculative-dspark-block-size"}
"""Flags that do not."""


def test_the_control_has_no_flags_and_does_not_speculate() -> None:
    control = builtin().algorithms["ar"]

    assert control.flags == {}
    assert not control.speculative


def test_equal_budgets_are_equal_numbers_of_drafted_tokens() -> None:
    table = builtin().algorithms
    speculative = {name for name, entry in table.items() if entry.speculative}

    widths = {
        n: compile_template(table[n].flags[f]).render({"budget": 7}) for n, f in WIDTH.items()
    }
    drafted = {
        n: compile_template(table[n].flags[f]).render({"budget": 7}) for n, f in DRAFTED.items()
    }

    assert speculative == set(WIDTH) | set(DRAFTED)
    assert set(widths.values()) == {8}
    assert set(drafted.values()) == {7}


def test_an_entry_of_a_matrix_changes_flag_by_flag_and_null_takes_away() -> None:
    base = {"a": Algorithm(flags={"x": 1, "y": 2, "z": 3}, since="0.5", description="d")}

    table = extended(base, {"a": Algorithm(flags={"x": 9, "y": None})}, "name")

    assert table["a"].flags == {"x": 9, "z": 3}
    assert (table["a"].since, table["a"].description) == ("0.5", "d")


def test_a_new_entry_may_extend_another_in_any_order() -> None:
    changes = {
        "c": Algorithm(extends="b", flags={"z": 3}),
        "b": Algorithm(extends="a", flags={"y": 2}),
    }

    table = extended({"a": Algorithm(flags={"x": 1}, speculative=False)}, changes, "name")

    assert table["c"].flags == {"x": 1, "y": 2, "z": 3}
    assert not table["c"].speculative


@pytest.mark.parametrize(
    "changes",
    [
        {"a": Algorithm(extends="b"), "b": Algorithm(extends="a")},
        {"a": Algorithm(extends="nix")},
    ],
)
def test_circles_and_unknown_parents_are_refused(changes: dict[str, Algorithm]) -> None:
    with pytest.raises(InputError):
        extended({}, changes, "name")


def test_a_level_of_null_leaves_every_common_flag_to_the_server() -> None:
    for name, factor in common_factors({}).items():
        for template in factor.flags.values():
            rendered = compile_template(template).render({name: None})

            assert rendered in (None, False), name
