"""A faulty arm is convicted on the page: size, place and cause, and its speed ranks nowhere."""

from typing import Any

import numpy as np
import pytest

from specbench.report.cells import cell_rows
from specbench.report.document import assemble
from specbench.report.findings import compose
from specbench.report.findings.reproduce import launch_words
from specbench.report.html import render as render_html
from specbench.report.inputs import Evidence
from specbench.report.plots import lossless
from specbench.report.statements import Section, Statement
from tests.recording.blocks import changed
from tests.report.synthetic import CLAIMS, clean, grid, interleaved, trial, verdict

GREEDY = CLAIMS[0] | {
    "name": "greedy, concurrency 1", "verdict": "violated", "p": None, "concurrency": 1,
    "n_tokens": 534, "effect": {"garbage_pct": 7.9, "doubtful_pct": 5.1}, "ci": [0.0, 11.2],
    "note": "3 reproduced wrong tokens",
}  # fmt: skip
COIN = "coins are shared between requests of a batch"
MASK = "attention mask, KV commit or compaction, or a wrong verify row"


def _tree(**changes: Any) -> dict[str, Any]:
    server = {"speculative_algorithm": "DDTREE", "speculative_eagle_topk": 4}
    return verdict(verdict="violated", claims=[GREEDY], suspects=[COIN, MASK], server=server,
                   block_id="ddtree-l0") | changes  # fmt: skip


def _chain(**changes: Any) -> dict[str, Any]:
    server = {"speculative_algorithm": "DFLASH", "speculative_eagle_topk": 1}
    return verdict(server=server, block_id="dflash-l0") | changes


def _run(**changes: Any) -> Evidence:
    """A run as small as one that has every arm: what is tested here is in the verdicts."""
    return clean([trial(algorithm=arm) for arm in ("ar", "dflash", "ddtree")], **changes)


def _section(evidence: Evidence, anchor: str) -> Section:
    return next(one for one in compose(evidence).sections if one.anchor == anchor)


def _first_violated(evidence: Evidence) -> Statement:
    return next(s for s in _section(evidence, "headline").statements if s.kind == "violated")


def test_the_first_line_of_a_violated_arm_has_size_place_and_cause() -> None:
    evidence = _run(verdicts=[_tree(), _chain()])

    text = _first_violated(evidence).text

    assert "7.90 % of greedy tokens wrong at concurrency 1 (534 tokens)" in text
    assert "the chain arm of the same run, DFLASH, holds" in text
    assert "first suspect: the attention mask of the tree, or the compaction" in text


def test_a_chain_that_holds_moves_the_suspects_of_trees_to_the_front() -> None:
    alone, both = _run(verdicts=[_tree()]), _run(verdicts=[_tree(), _chain()])

    without, with_chain = (_section(one, "lossless").statements for one in (alone, both))

    assert any(f"points to {COIN}" in one.text for one in without)
    assert any(f"points to {MASK}" in one.text for one in with_chain)
    assert any("What only a tree has is" in one.text for one in with_chain)


def test_a_chain_that_fails_as_well_or_has_another_drafter_acquits_nothing() -> None:
    failing = _chain(verdict="violated", claims=[GREEDY])
    other = _chain(server={"speculative_algorithm": "EAGLE3", "speculative_eagle_topk": 1})

    for chain in (failing, other):
        text = compose(_run(verdicts=[_tree(), chain])).text()

        assert "What only a tree has" not in text


def test_a_findings_document_is_not_repeated_but_its_notes_are_kept() -> None:
    markdown = "**NOT LOSSLESS**: x\n\nNotes:\n- deterministic: all equal\n\n| claim | verdict |\n"

    text = compose(_run(verdicts=[_tree(findings=markdown)])).text()

    assert "**" not in text
    assert "| claim" not in text
    assert "DDTREE: deterministic: all equal" in text


def test_an_interval_stands_beside_the_effect_it_is_of_and_the_convicting_one_leads() -> None:
    drawn = CLAIMS[1] | {
        "verdict": "violated", "p": 0.1, "effect": {"t_eff_pct": 4.9, "garbage_pct": 1.03},
        "ci": [-3.8, 13.7], "note": "3 reproduced wrong tokens",
    }  # fmt: skip

    text = compose(_run(verdicts=[_tree(claims=[drawn])])).text()

    assert "garbage_pct 1.03; t_eff_pct 4.90, 95 % interval [-3.80, 13.7], p = 1.0e-01" in text


def test_what_would_have_been_seen_is_not_said_of_a_violated_verdict() -> None:
    first = _section(_run(verdicts=[_tree()]), "lossless").statements[0]

    assert "would have been seen" not in first.text


def test_a_documented_upstream_gap_is_told_apart_from_a_violation() -> None:
    gap = GREEDY | {"name": "min_p", "known_gap": "min_p is ignored (#10617)"}

    section = _section(_run(verdicts=[_tree(claims=[GREEDY, gap])]), "lossless")
    told = next(one for one in section.statements if "`min_p`" in one.text)

    assert told.kind == "flag"
    assert "min_p is ignored (#10617)" in told.text


def test_a_witness_says_what_was_emitted_and_what_the_command_shows() -> None:
    witness = {"prompt_ids": [1], "position": 17, "token": 42, "target_argmax": 7,
               "margin_nat": 8.2,
               "curl": "curl " + "1," * 5000}  # fmt: skip

    section = _section(_run(verdicts=[_tree(witnesses=[witness])]), "lossless")
    told = next(one for one in section.statements if "reproduced wrong token 1 of 1" in one.text)

    assert "emitted token 42" in told.text
    assert "shows the target's choice, 7" in told.text
    assert told.details == (witness["curl"],)


def _with_lossy_tree() -> Evidence:
    rows = [
        row | {"lossless": "violated"} if row["algorithm"] == "ddtree" else row
        for row in interleaved(grid(temperatures=(0.0,), concurrencies=(1, 8)))
    ]
    return clean(rows, verdicts=[_tree(), _chain()])


def test_wrong_output_is_the_first_reason_why_no_speed_is_claimed() -> None:
    statements = _section(_with_lossy_tree(), "speed").statements
    about = [one for one in statements if "ddtree" in one.text]

    assert about
    assert all(one.kind == "withheld" for one in about)
    assert all(": its output is not lossless" in one.text for one in about)


@pytest.mark.process
def test_every_speed_of_wrong_output_is_marked_beside_the_number() -> None:
    evidence = _with_lossy_tree()
    document = assemble([evidence])
    chapter = document.chapters[0]
    lossy = [row for row in chapter.cells.rows if "ddtree" in row]
    rates = [one for one in _section(evidence, "capacity").statements if "ddtree" in one.text]

    assert len(lossy) == sum(row["algorithm"] == "ddtree" for row in cell_rows(evidence))
    assert all(sum("(not lossless)" in str(value) for value in row) == 3 for row in lossy)
    assert rates
    assert all("tok/s (not lossless)" in one.text for one in rates)
    assert "not lossless: ddtree" in chapter.pictures["overview"].caption
    assert "and 1 more rows" not in render_html(document)


def test_rows_with_flags_are_facts_in_the_decomposition() -> None:
    rows = [
        row | {"flags": "client_saturated"}
        for row in interleaved(grid(temperatures=(0.0,), concurrencies=(1, 8)))
    ]

    statements = _section(clean(rows), "decomposition").statements

    assert statements
    assert all(one.kind == "fact" for one in statements)
    assert all("client was the bottleneck" in one.text for one in statements)


def test_flags_that_hit_the_rows_of_a_claim_stand_in_its_sentence() -> None:
    rows = [
        row | {"flags": "no_steady_window" if row["concurrency"] == 8 else ""}
        for row in interleaved(grid(algorithms=("ar", "dflash"), temperatures=(0.0,)))
    ]

    claims = [one for one in _section(clean(rows), "speed").statements if "is faster" in one.text]
    told = {("flags: `no_steady_window` (M4)" in one.text) for one in claims
            if "concurrency 8 " in one.text}  # fmt: skip
    spared = {"M4" in one.text for one in claims if "concurrency 8 " not in one.text}

    assert (told, spared) == ({True}, {False})


def test_a_violated_claim_without_a_p_value_is_drawn_as_violated() -> None:
    unknown = GREEDY | {
        "name": "top_p",
        "effect": {},
        "temperature": None,
        "note": "19 of 252 tokens are forbidden",
    }

    axes = lossless(_run(verdicts=[_tree(claims=[GREEDY, unknown])]))
    violated = next(line for line in axes.lines if line.get_label() == "violated")
    labels = [label.get_text() for label in axes.get_yticklabels()]

    assert np.asarray(violated.get_xdata()).tolist() == [20.0, 20.0]
    assert not any("None" in label for label in labels)
    assert {"garbage_pct 7.90", "19 of 252 tokens"} <= {text.get_text() for text in axes.texts}


def test_a_modelled_clock_is_said_first() -> None:
    evidence = _run()
    engine = {"server_info": {"specbench_engine": {"gpu": "b200", "faults": ["stale-root"]}}}
    blocks = {name: changed(facts, **engine) for name, facts in evidence.blocks.items()}

    first = _section(_run(blocks=blocks), "headline").statements[0]

    assert "the hardware clock is modelled (b200)" in first.text
    assert "stale-root" in first.text


def test_a_verified_arm_comes_with_its_whole_launch_command() -> None:
    argv = ["python", "-m", "sglang.launch_server", "--model-path", "a model"]
    evidence = _run(verdicts=[_tree(block_id="ddtree-l0", host="gpu1")],
                     launches={"ddtree-l0": {"argv": argv, "env": {"MODE": "x y"}}})  # fmt: skip

    details = [one.details for one in _section(evidence, "reproduce").statements]

    assert (
        "env 'MODE=x y' python -m sglang.launch_server --model-path 'a model'",
        "specbench verify --url URL --budget quick",
    ) in details


def test_secrets_of_a_launch_are_left_out_of_its_command() -> None:
    launch = {"argv": ["serve", "--api-key", "hunter2", "--admin-api-key=hunter2"],
              "env": {"HF_TOKEN": "hunter2", "A": "b"}}  # fmt: skip

    assert "hunter2" not in " ".join(launch_words(launch))


def test_the_page_explains_the_words_of_verdicts() -> None:
    rows = dict(_section(_run(), "words").tables[0].rows)

    assert {"garbage_pct", "doubtful_pct", "t_eff_pct", "excess_greedy_pct", "regret", "place",
            "independent coins", "frozen contexts"} <= set(rows)  # fmt: skip
