"""Each known mistake, planted in a recording, is found and named; a clean run has none."""

import math
import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from specbench.report import plots
from specbench.report.checklist import PITFALLS, Item, accepting, operating, review
from specbench.report.checklist.answer import Case
from specbench.report.findings import compose
from specbench.report.inputs import Evidence
from specbench.report.speedups import speed_ups
from tests.recording.blocks import changed
from tests.report.synthetic import CLAIMS, SAMPLING, clean, grid, interleaved, verdict

Rows = list[dict[str, Any]]
Plant = Callable[[], Evidence]

EXCLUDED_BY_CONSTRUCTION = frozenset({"C10", "C12"})
"""The report itself cannot make these: no accept rate is shown, nothing is extrapolated.
Tests below say so."""


def _rows() -> Rows:
    return interleaved(grid(temperatures=(1.0,), concurrencies=(1, 8), replicates=1))


def _with(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Evidence:
    return clean([row | change(row) for row in _rows()])


def _flag(name: str, arm: str = "ddtree") -> Plant:
    return lambda: _with(lambda row: {"flags": name} if row["algorithm"] == arm else {})


def _requests(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Evidence:
    evidence = clean(_rows())
    return clean(_rows(), requests=change(evidence.requests.copy()))


def _blocks(change: dict[str, Any], arm: str = "ddtree") -> Evidence:
    blocks = clean(_rows()).blocks
    return clean(
        _rows(),
        blocks={
            name: changed(facts, **change) if name.startswith(arm) else facts
            for name, facts in blocks.items()
        },
    )


def _journal(*entries: dict[str, Any]) -> Evidence:
    return clean(_rows(), journal=[*clean(_rows()).journal, *entries])


def _failed(pattern: str) -> Plant:
    return lambda: _journal(
        {
            "kind": "block_failed",
            "block_id": "ddtree-l0",
            "pattern": pattern,
            "cause": f"planted {pattern}",
            "hint": "repair it",
            "evidence": ["last line of the log"],
        }
    )


def _other_prompts(requests: pd.DataFrame) -> pd.DataFrame:
    names = requests["prompt_id"].astype(str)
    mine = requests["trial_id"].astype(str).str.startswith("ddtree")
    requests["prompt_id"] = names.where(~mine, "other-" + names).astype("category")
    return requests


def _burst(requests: pd.DataFrame) -> pd.DataFrame:
    return requests.assign(intended_ns=0.0)


def _longer(requests: pd.DataFrame) -> pd.DataFrame:
    mine = requests["trial_id"].astype(str).str.startswith("ddtree")
    tokens = requests["output_tokens"]
    return requests.assign(output_tokens=tokens.where(~mine, tokens * 1.4))


def _repeated(requests: pd.DataFrame) -> pd.DataFrame:
    return requests.assign(prompt_id="p000")


def _settings(**changes: Any) -> Evidence:
    rows = _rows()
    sampling = {**SAMPLING, **changes}
    sampling = {name: value for name, value in sampling.items() if value != "left out"}
    return clean(rows, settings={row["trial_id"]: {"sampling": sampling} for row in rows})


def _claims(**changes: Any) -> Evidence:
    return clean(
        _rows(), verdicts=[verdict("ddtree", claims=[claim | changes for claim in CLAIMS])]
    )


def _ngram() -> Evidence:
    rows = [
        row | {"algorithm": "ngram"} if row["algorithm"] == "dflash" else row for row in _rows()
    ]
    return clean(rows, requests=_repeated(clean(rows).requests))


def _more_in_speculation(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return changes if row["algorithm"] != "ar" else {}


PLANTS: dict[str, Plant] = {
    "C1": lambda: clean(
        [r for r in _rows() if (r["algorithm"] == "ar") == (r["concurrency"] == 1)]
    ),
    "C2": lambda: _requests(_other_prompts),
    "C3": lambda: _blocks({"code_hash": "a patch"}),
    "C4": lambda: clean([row for row in _rows() if row["algorithm"] != "ar"]),
    "C5": lambda: _with(lambda row: _more_in_speculation(row, concurrency_effective=0.4)),
    "C6": lambda: _blocks({"server_info": {"disable_cuda_graph": True}}),
    "C7": lambda: clean([row | {"tok_s": None} for row in _rows()]),
    "C8": lambda: clean([row for row in _rows() if row["launch"] == 0]),
    "C9": _flag("thermal"),
    "C11": lambda: _with(lambda row: _more_in_speculation(row, tok_s=60.0, step_ms=60.0)),
    "C14": _flag("few_requests"),
    "M1": lambda: _with(lambda _: {"tpot_ms_p50": None}),
    "M2": lambda: _with(lambda row: _more_in_speculation(row, accept_len_server=9.0)),
    "M3": lambda: _with(lambda row: _more_in_speculation(row, accept_len=None)),
    "M4": _flag("no_steady_window"),
    "M5": lambda: _requests(_burst),
    "M6": _flag("prefix_cache_hits"),
    "M7": lambda: _settings(ignore_eos=True),
    "M8": _flag("client_saturated"),
    "M9": lambda: _settings(min_p="left out"),
    "M10": _flag("greedy_fallback"),
    "M11": _flag("simulated_acceptance"),
    "M12": lambda: _blocks({"server_info": {"speculative_accept_threshold_single": 0.8}}),
    "M13": lambda: _with(lambda _: {"n_failed": 3, "flags": "failed_requests"}),
    "M14": lambda: _requests(_longer),
    "M15": lambda: clean(
        _rows(),
        manifest={
            "name": "remote",
            "hosts": {"b300": {"address": "192.0.2.7", "drive_from": "here"}},
        },
    ),
    "M16": lambda: _blocks({"server_info": {"decode_log_interval": 1}}),
    "M17": _ngram,
    "M18": lambda: _with(lambda row: _more_in_speculation(row, accept_len=6.0)),
    "M19": _flag("stamps_in_doubt"),
    "M20": _flag("counts_in_doubt"),
    "O1": _flag("args_mismatch"),
    "O2": _failed("port_in_use"),
    "O3": _failed("bad_flag"),
    "O4": _failed("scheduler_died"),
    "O5": lambda: clean(_rows(), journal=[{"kind": "trial_sealed", "trial_id": "another"}]),
    "O6": lambda: _blocks({"code_hash": "a patch"}, arm="dflash"),
    "O7": _flag("interrupted"),
    "O8": lambda: _journal(
        {"kind": "block_stopped", "block_id": "ar-l0", "seconds": 75.0, "bound_s": 60.0}
    ),
    "O9": _flag("gpu_shared"),
    "O10": _failed("lock_held"),
    "V1": lambda: _claims(method=""),
    "V2": lambda: _claims(method="compared with self"),
    "V3": lambda: _claims(verdict="violated"),
    "V4": lambda: clean(_rows(), verdicts=[verdict("ddtree", claims=CLAIMS[:1])]),
    "V5": lambda: _claims(method="task accuracy"),
    "V6": lambda: _settings(top_k=20, top_p=0.95),
    "V7": lambda: clean([r for r in _rows() if r["algorithm"] != "ar" or r["launch"] == 0]),
    "V8": lambda: _claims(concurrency=1),
}


def _found(evidence: Evidence) -> dict[str, Item]:
    items = review(evidence, speed_ups(evidence))
    return {item.pitfall.id: item for item in items if item.answer.state == "found"}


def test_every_pitfall_of_the_checklist_is_planted_or_impossible_by_construction() -> None:
    assert set(PLANTS) | EXCLUDED_BY_CONSTRUCTION == {pitfall.id for pitfall in PITFALLS}


def test_no_rate_of_accepted_proposals_is_shown_so_that_trees_and_chains_cannot_be_mixed() -> None:
    findings = compose(clean())
    shown = [
        findings.text(),
        *(head for s in findings.sections for t in s.tables for head in t.heads),
    ]
    drawn = [plots.accept_len(clean()), plots.acceptance_by_position(clean())]
    shown += [label for axes in drawn for label in (axes.get_ylabel(), axes.get_xlabel())]

    assert not [text for text in shown if re.search(r"accept\w* rate|of proposed|per propos", text)]


@pytest.mark.parametrize("plot", [plots.throughput, plots.per_user, plots.speedup])
def test_curves_go_through_measured_loads_and_never_beyond_them(plot: Callable[..., Any]) -> None:
    axes = plot(clean(), where={"temperature": 1.0})

    drawn = [
        float(x) for line in axes.get_lines() for x in line.get_xdata() if len(line.get_xdata()) > 2
    ]
    assert drawn
    assert {min((1, 8, 64), key=lambda load: abs(math.log2(x / load))) for x in drawn} == {1, 8, 64}
    assert all(min(abs(math.log2(x / load)) for load in (1, 8, 64)) < 0.2 for x in drawn)


def test_a_clean_run_has_nothing_found_and_nothing_unjudged() -> None:
    evidence = clean(interleaved(grid(concurrencies=(1, 8))))

    items = review(evidence, speed_ups(evidence))

    assert {item.pitfall.id: item.answer for item in items if item.answer.state != "excluded"} == {}


@pytest.mark.parametrize("pitfall", PLANTS)
def test_a_planted_mistake_is_found(pitfall: str) -> None:
    evidence = PLANTS[pitfall]()

    assert pitfall in _found(evidence)


def test_a_host_without_gpus_is_judged_by_what_others_used_of_its_processors() -> None:
    known = clean(_rows(), gpu={}).trials.assign(host_foreign_cpu_pct=3.0)
    partly = known.assign(host_foreign_cpu_pct=[float("nan"), *[3.0] * (len(known) - 1)])

    answers = [
        operating.machine_alone(Case(evidence=clean(trials=trials, gpu={}), pairs=[]))
        for trials in (known, partly)
    ]

    assert [answer.state for answer in answers] == ["excluded", "cannot tell"]
    assert "others used at most 3.00 % of the processors" in answers[0].how


@pytest.mark.parametrize(("excess", "state"), [(40.0, "found"), (-26.0, "excluded")])
def test_only_too_many_first_choices_speak_of_greedy_decoding(excess: float, state: str) -> None:
    sampled = CLAIMS[1] | {"verdict": "violated", "effect": {"excess_greedy_pct": excess}}
    evidence = clean(_rows(), verdicts=[verdict("ddtree", claims=[CLAIMS[1], sampled])])

    assert accepting.really_sampled(Case(evidence=evidence, pairs=[])).state == state


def test_machinery_that_the_algorithm_forces_is_told_as_part_of_the_speed_up() -> None:
    info = {"server_info": {"disable_overlap_schedule": True},
            "spec": {"forces": ["disable_overlap_schedule"]}}  # fmt: skip

    answer = _found(_blocks(info, arm="dflash"))["C6"].answer

    assert "which the algorithm itself forces" in answer.how


@pytest.mark.parametrize("pitfall", ["C4", "M11", "O3", "V3"])
def test_a_found_mistake_is_named_in_the_findings_with_its_rows(pitfall: str) -> None:
    findings = compose(PLANTS[pitfall]())
    section = next(section for section in findings.sections if section.anchor == "checklist")

    assert any(one.text.startswith(f"{pitfall}, ") for one in section.statements)
    assert pitfall in findings.sections[0].statements[-1].text


def test_without_evidence_no_mistake_is_called_excluded_that_needs_some() -> None:
    rows = _rows()
    bare = clean(
        rows,
        requests=clean(rows).requests.iloc[:0],
        blocks={},
        verdicts=[],
        journal=[],
        settings={},
        gpu={},
        manifest={"name": "empty"},
        histograms={},
    )

    states = {item.pitfall.id: item.answer.state for item in review(bare, speed_ups(bare))}

    for pitfall in ("C2", "C6", "M5", "M9", "M11", "M12", "M16", "O1", "O6", "O10", "V2", "V8"):
        assert states[pitfall] == "cannot tell"
