"""Every sentence carries n, points to rows, and is withheld where the evidence is weak."""

import re
from typing import Any

import pytest

from specbench.report.findings import compose
from specbench.report.statements import Statement
from tests.recording.blocks import changed
from tests.report.synthetic import CLAIMS, clean, grid, interleaved, trial, verdict


def _claims_of_speed(evidence: Any) -> list[Statement]:
    return [
        one
        for section in compose(evidence).sections
        if section.anchor in {"headline", "speed"}
        for one in section.statements
        if one.kind == "claim" and "tok_s" in one.text
    ]


def test_every_claim_carries_its_n_and_an_interval_or_a_resolution() -> None:
    for one in compose(clean()).statements():
        if one.kind != "claim":
            continue

        assert "n = " in one.text, one.text
        assert re.search(r"\[[\d.]+, [\d.]+\]|smallest effects|verdict", one.text), one.text


def test_every_claim_about_cells_points_to_rows_of_the_recording() -> None:
    evidence = clean()
    known = {*evidence.trials["cell_id"], *evidence.trials["trial_id"], *evidence.blocks}

    for section in compose(evidence).sections:
        if section.anchor in {"speed", "decomposition", "acceptance", "lossless"}:
            assert all(set(one.rows) <= known for one in section.statements)
            assert all(one.rows for one in section.statements if one.kind == "claim")


def test_one_trial_an_arm_supports_no_claim_about_a_small_difference() -> None:
    rows = [trial(tok_s=100.0), trial(algorithm="dflash", tok_s=103.0)]

    assert _claims_of_speed(clean(rows)) == []


def test_noise_larger_than_the_difference_supports_no_claim() -> None:
    rows = grid(algorithms=("ar",), temperatures=(0.0,), concurrencies=(8,), replicates=2)
    noisy = [
        row | {"tok_s": 100.0 * (0.7 if i % 2 else 1.3) * (1.02 if arm == "dflash" else 1.0),
               "algorithm": arm, "cell_id": arm, "trial_id": f"{arm}-{i}",
               "block_id": f"{arm}-l{row['launch']}"}
        for arm in ("ar", "dflash")
        for i, row in enumerate(rows)
    ]  # fmt: skip

    findings = compose(clean(noisy))

    assert _claims_of_speed(clean(noisy)) == []
    assert "No speed-up is claimed" in findings.text()


def test_saturated_clients_support_no_claim_and_the_reason_is_said() -> None:
    rows = [row | {"flags": "client_saturated"} for row in interleaved(grid())]

    findings = compose(clean(rows))

    assert _claims_of_speed(clean(rows)) == []
    assert "client was the bottleneck" in findings.text()


def test_without_a_control_nothing_is_faster() -> None:
    rows = [row for row in interleaved(grid()) if row["algorithm"] != "ar"]

    findings = compose(clean(rows))

    assert _claims_of_speed(clean(rows)) == []
    assert "no control cell was measured" in findings.text()


def test_a_clear_difference_is_claimed_with_its_interval() -> None:
    claims = _claims_of_speed(clean())

    assert any("dflash, temperature 0, concurrency 8 is faster than `ar`" in c.text for c in claims)


def test_a_crossover_is_bracketed_by_measured_levels() -> None:
    rows = [
        row | {"tok_s": row["tok_s"] * (0.5 if row["concurrency"] == 64 else 1)}
        if row["algorithm"] == "dflash"
        else row
        for row in interleaved(grid(temperatures=(0.0,)))
    ]

    text = compose(clean(rows)).text()

    assert "dflash: the advantage ends between concurrency 8" in text


def test_without_verdicts_losslessness_is_said_to_be_untested() -> None:
    findings = compose(clean(verdicts=[]))

    assert findings.sections[0].statements[0].kind == "withheld"
    assert "Losslessness was not tested" in findings.text()


def test_a_violation_leads_with_effect_witness_and_the_command_that_shows_it_again() -> None:
    broken = verdict(
        "ddtree",
        verdict="violated",
        claims=[CLAIMS[0] | {"verdict": "violated", "p": 1e-30, "ci": [6.1, 10.3],
                             "effect": {"excess_greedy_pct": 8.2}}],
        witnesses=[{"prompt_ids": [1], "position": 17, "token": 42, "target_argmax": 7,
                    "margin_nat": 8.2, "curl": "curl -s http://127.0.0.1:30000/generate"}],
        suspects=["mask of siblings"],
    )  # fmt: skip

    findings = compose(clean(verdicts=[verdict("dflash"), broken]))
    details = [line for one in findings.statements() for line in one.details]

    assert findings.sections[0].statements[0].text.startswith("Not lossless: ddtree")
    assert "excess_greedy_pct 8.20, 95 % interval [6.10, 10.3], p = 1.0e-30" in findings.text()
    assert "points to mask of siblings" in findings.text()
    assert "curl -s http://127.0.0.1:30000/generate" in details


def test_the_fastest_arm_is_not_praised_when_it_is_not_lossless() -> None:
    rows = [
        row | {"lossless": "violated"} if row["algorithm"] == "ddtree" else row
        for row in interleaved(grid())
    ]

    headline = compose(clean(rows)).sections[0]
    faster = next(one for one in headline.statements if one.text.startswith("Faster"))

    assert "the clearest is dflash" in faster.text


def test_an_inconclusive_verdict_says_what_more_would_cost() -> None:
    document = verdict("ddtree", verdict="inconclusive", needed={"tokens": 40000, "minutes": 3})

    text = compose(clean(verdicts=[document])).text()

    assert "40,000 tokens, 3 minutes more" in text


def test_failures_are_told_with_cause_hint_and_log() -> None:
    journal = [
        {"kind": "block_failed", "block_id": "ddtree-l0", "pattern": "cuda_oom",
         "cause": "out of GPU memory", "hint": "lower mem-fraction-static",
         "evidence": ["torch.OutOfMemoryError: tried to allocate 2 GiB"]}
    ]  # fmt: skip

    section = next(s for s in compose(clean(journal=journal)).sections if s.anchor == "failures")

    assert "out of GPU memory. What to do: lower mem-fraction-static." in section.statements[0].text
    assert section.statements[0].details == ("torch.OutOfMemoryError: tried to allocate 2 GiB",)


def test_what_was_never_measured_is_listed() -> None:
    findings = compose(clean(interleaved(grid(temperatures=(0.0,)))))
    section = next(s for s in findings.sections if s.anchor == "not-tested")

    assert any("temperature 0" in one.text for one in section.statements)


def test_secrets_in_launch_flags_never_reach_a_report() -> None:
    evidence = clean()
    facts = changed(evidence.blocks["ar-l0"], spec={"flags": [["api-key", "hunter2"]]})

    findings = compose(clean(blocks={"ar-l0": facts}))

    assert "hunter2" not in repr(findings)


@pytest.mark.parametrize("rows", [[], [trial(status="failed", reason="died", tok_s=None)]])
def test_a_run_without_a_usable_trial_has_findings_and_no_claim(rows: list[dict[str, Any]]) -> None:
    findings = compose(clean(rows, verdicts=[]))

    assert [one for one in findings.statements() if one.kind == "claim"] == []
