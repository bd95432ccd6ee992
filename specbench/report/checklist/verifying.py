"""Checks of the mistakes in verifying losslessness (V1 to V8)."""

from specbench.model.verdict import Claim
from specbench.report import cells
from specbench.report.checklist.answer import Answer, Case, excluded, found, unknown
from specbench.report.inputs import Evidence
from specbench.report.statements import count, listed

NO_VERDICT = "losslessness was not tested: no verdict is in this recording"


def _claims(evidence: Evidence) -> list[Claim]:
    return [claim for document in evidence.verdicts for claim in document.claims]


def has_verdict(case: Case) -> Answer:
    """V1: it looks coherent."""
    claims = _claims(case.evidence)
    if not claims:
        return unknown(f"{NO_VERDICT}, and nothing on this page says that the output is right")
    bare = [claim.name for claim in claims if not claim.method]
    if bare:
        return found(f"claims without a method: {listed(bare)}")
    tokens = sum(claim.n_tokens for claim in claims)
    return excluded(
        f"{count(len(claims), 'claim')} with method, n ({tokens:,} tokens) and resolution"
    )


def against_reference(case: Case) -> Answer:
    """V2: two identical runs taken as proof."""
    claims = _claims(case.evidence)
    if not claims:
        return unknown(NO_VERDICT)
    same = [c.name for c in claims if "self" in c.method.lower().split()]
    if same:
        return found(f"compared with itself only: {listed(same)}")
    return excluded("tokens are judged by the target's own distribution, not by a second run")


def by_margin(case: Case) -> Answer:
    """V3: any mismatch at temperature 0 called a bug."""
    violated = [c for c in _claims(case.evidence) if c.verdict == "violated"]
    if not _claims(case.evidence):
        return unknown(NO_VERDICT)
    greedy = [c for c in violated if not c.temperature]
    witnesses = [w for document in case.evidence.verdicts for w in document.witnesses]
    if greedy and not witnesses:
        return found(
            "a violation at temperature 0 without a witness: no margin says that it is not noise"
        )
    margins = [w.margin_nat for w in witnesses]
    also = f"; the smallest witness margin is {min(margins):.1f} nat" if margins else ""
    return excluded(f"mismatches are judged by the target's own margin{also}")


def both_regimes(case: Case) -> Answer:
    """V4: temperature 0 passes, so above 0 is assumed."""
    claims = _claims(case.evidence)
    if not claims:
        return unknown(NO_VERDICT)
    tested = {c.temperature > 0 for c in claims if c.temperature is not None}
    used = set()
    if "temperature" in case.evidence.trials.columns:
        levels = {cells.plain(v) for v in case.evidence.trials["temperature"]} - {None}
        used = {level > 0 for level in levels}
    missing = used - tested
    if missing:
        names = ["above 0" if sampled else "0" for sampled in sorted(missing)]
        return found(f"speeds were measured at temperature {listed(names)}, without a claim there")
    return excluded("temperature 0 and above 0 have claims of their own where they were measured")


def not_by_accuracy(case: Case) -> Answer:
    """V5: accuracy on a few hundred questions called lossless."""
    claims = _claims(case.evidence)
    weak = [c.name for c in claims if "accuracy" in c.method.lower()]
    if weak:
        return found(f"judged by accuracy, which is blind to small changes: {listed(weak)}")
    return excluded("no claim rests on task accuracy") if claims else unknown(NO_VERDICT)


def one_filter(case: Case) -> Answer:
    """V6: top_k and top_p together differ between the two samplers by design."""
    both = []
    for trial, setting in case.evidence.settings.items():
        sampling = setting.get("sampling") or {}
        top_k, top_p = sampling.get("top_k"), sampling.get("top_p")
        if (
            (sampling.get("temperature") or 0) > 0
            and top_k not in (None, -1, 0, 1)
            and top_p not in (None, 1, 1.0)
        ):
            both.append(trial)
    if both:
        return found(
            f"top_k and top_p together on {count(len(both), 'trial')}: the plain and"
            " the speculative sampler compose them differently by design",
            both,
        )
    if not case.evidence.settings:
        return unknown("the sampling fields were not recorded")
    return excluded("no trial sampled with top_k and top_p together")


def across_launches(case: Case) -> Answer:
    """V7: greedy text differs across restarts."""
    if not _claims(case.evidence):
        return unknown(NO_VERDICT)
    control = cells.usable(case.evidence.trials)
    control = control[control["algorithm"] == case.evidence.control]
    launches = control["block_id"].nunique()
    if launches < 2:
        return found("the control was measured in one launch: restart noise is not in its margin")
    return excluded(f"the control was measured in {launches} launches")


def verified_concurrency(case: Case) -> Answer:
    """V8: exactness claimed at concurrency 1, broken at 16."""
    claims = _claims(case.evidence)
    if not claims:
        return unknown(NO_VERDICT)
    levels = sorted({c.concurrency for c in claims})
    if max(levels) < 2:
        return found("claims were taken at concurrency 1 only: batching is untested")
    return excluded(f"claims were taken at concurrency {listed([str(v) for v in levels])}")
