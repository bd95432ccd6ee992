"""Which part of a speculative server to look at first, from which stages failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.model.verdict import Claim, Suspect, SuspectCode
from specbench.verify.statistics.evidence import Evidence

# Columns: does the stage fail? None = does not matter. First match first; facts behind each row:
# which path a stage exercises (greedy or sampling kernel, batch of one or many, tree or prefix).
_STAGES = ("G1", "GC", "K1", "S1", "HOT", "T!=1", "frozen", "gap")
_ROWS: tuple[tuple[tuple[bool | None, ...], SuspectCode, str], ...] = (
    (
        (True, True, None, None, None, None, None, None),
        "mask_compaction",
        (
            "attention mask, KV commit or compaction, or a wrong verify row: greedy output is "
            "wrong already at concurrency 1. If only trees fail: mask or compaction; if chains "
            "fail as well: commit or positions"
        ),
    ),
    (
        (True, False, None, None, None, None, None, None),
        "mask_positions",
        (
            "the prefix cache that earlier requests left (batches with more tokens are right), or "
            "attention mask, KV commit or positions, rare enough to miss the batched sample"
        ),
    ),
    (
        (False, True, None, None, None, None, None, None),
        "batch",
        "batch indexing, buffers shared between requests, or CUDA-graph padding: only batches fail",
    ),
    (
        (False, False, True, None, None, None, None, None),
        "sampling_kernel",
        "sampling kernel: row offsets or the predicts index (the greedy kernel is right)",
    ),
    (
        (False, False, False, True, None, None, None, None),
        "residual",
        "residual distribution, coins or acceptance thresholds: wrong only where tokens are drawn",
    ),
    (
        (False, False, False, False, True, None, None, None),
        "temperature",
        "temperature or top_k in the verify path: right at temperature 1",
    ),
    (
        (False, False, False, False, False, True, None, None),
        "filter",
        "a filter in the verify path (top_k, top_p) or the temperature below 1",
    ),
    (
        (False, False, False, False, False, False, True, None),
        "drafter_bias",
        "a residual with the drafter's q (p - q), or another bias aligned with the drafter",
    ),
    (
        (False, False, False, False, False, False, False, True),
        "logprobs",
        (
            "reported log-probabilities are not those of the emitted tokens, or positions, "
            "quantisation or weights differ slightly in the verify path"
        ),
    ),
)


def suspects(
    evidences: Sequence[Evidence],
    claims: Sequence[Claim],
    odd: frozenset[str] = frozenset(),
    *,
    greedy_gap: str = "",
) -> list[Suspect]:
    """Return a ranked list, the likeliest cause first; empty where nothing is violated.

    A cause explains everything after it: wrong state makes sampled output and every parameter look
    wrong as well, and wrong sampling makes filters look wrong. So the earliest failure leads, and
    what it explains is left out. `odd` are the kinds of integrity findings; `greedy_gap`
    says where the server is known to verify greedily above temperature 0.
    """
    pairs = list(zip(evidences, claims, strict=True))
    violated = [(e, c) for e, c in pairs if c.verdict == "violated" and not c.known_gap]
    failed = {e.stage for e, _ in violated}
    found = _ends(odd)
    if not failed:
        return found
    found += _unasked(failed)
    found += _shared(violated)
    signs = _signatures(evidences, failed, greedy_gap)
    if failed & _STATE:
        only = [] if failed & {"G1", "GC", "K1"} else _other_stages(failed)
        return [*found, *only, *_patterns(failed), *(s for s in signs if s.code in _OF_STATE)]
    if failed & {"S1", "frozen"}:
        # Where greedy output holds, mask and cache are right.
        named = [s for s in signs if s.code not in _OF_STATE or s.code == "deep_context"]
        return [*found, *named, *_patterns(failed)]
    if "K1" in failed:
        held = any(e.stage == "S1" and c.verdict == "holds" for e, c in pairs)
        found += [_TOP_K] if held or "S1" not in {e.stage for e in evidences} else []
    return [*found, *_other_stages(failed), *_patterns(failed)]


_STATE = frozenset({"G1", "GC", "long", "turn", "soak", "mixed"})
_OF_STATE = frozenset({"mask_bonus", "stale_root", "deep_context"})
_TOP_K = Suspect(
    code="stage", text="top_k is not applied in the verify path: greedy and unfiltered output hold"
)


def _ends(odd: frozenset[str]) -> list[Suspect]:
    """Name what a broken form says by itself."""
    texts = {
        "stop": "stop tokens inside an accepted block are noticed late or not at all",
        "length": "the last block is not cut at max_new_tokens",
        "text": "the text loses characters between tokens and answer (detokenizer)",
    }
    return [Suspect(code="stage", text=text) for kind, text in texts.items() if kind in odd]


def _unasked(failed: set[str]) -> list[Suspect]:
    """Tell a token that no row chose from a bias that rows do not see.

    A bias of 200 nat forces its token in every row, whatever mask and cache do. If both the bias
    and unbiased greedy output fail, the emitted token did not come from a row of the target.
    """
    if "bias" not in failed:
        return []
    if failed & _STATE:
        text = (
            "a token is emitted that no row of the target chose: a draft accepted unchecked, or "
            "emitted in the place of the bonus (a bias of 200 nat does not stop it)"
        )
        return [Suspect(code="unchecked", text=text)]
    return [Suspect(code="stage", text="logit_bias is not applied to every verify row")]


def _shared(violated: Sequence[tuple[Evidence, Claim]]) -> list[Suspect]:
    """Name coins that requests share, where greedy verification does not explain equal draws."""
    shown = any(e.stage == "coins" or c.test == "shared coins" for e, c in violated)
    marginal = any(e.stage == "S1" and c.test not in ("", "shared coins") for e, c in violated)
    greedy = {e.stage for e, _ in violated} & _STATE
    if not shown or marginal or greedy:
        return []
    return [Suspect(code="stage", text="coins are shared between requests of a batch")]


def _patterns(failed: set[str]) -> list[Suspect]:
    """Return the first row of the table that fits."""
    for pattern, code, text in _ROWS:
        pairs = zip(_STAGES, pattern, strict=True)
        if all(want is None or (stage in failed) == want for stage, want in pairs):
            return [Suspect(code=code, text=text)]
    return []


def _signatures(evidences: Sequence[Evidence], failed: set[str], greedy_gap: str) -> list[Suspect]:
    """Effects that name their cause by size or by place within the round."""
    found = []
    greedy = [e for v in evidences if v.stage == "S1" and (e := v.effect("excess_greedy_pct"))]
    if greedy and greedy[0].low > 80 and "S1" in failed:
        text = (
            f"verification is greedy at temperature > 0: {greedy[0].value:.0f} % of the tokens are "
            "the target's argmax"
        )
        known = f". {greedy_gap}" if greedy_gap else ""
        found.append(Suspect(code="greedy_sampling", text=text + known))
    for v in evidences:
        found.extend(_profile_signature(v, failed))
    return found[:3]


def _profile_signature(evidence: Evidence, failed: set[str]) -> list[Suspect]:
    places: Mapping[int, float] = evidence.profile
    wild = {k for k, z in places.items() if abs(z) > 5}
    if evidence.stage not in failed or len(places) < 3 or not wild:
        return []
    last = max(places)
    code: SuspectCode
    shown = ", ".join(f"{k}: {z:+.0f}" for k, z in sorted(places.items()))
    if wild == {last}:
        code, text = "deep_context", "only the deepest tokens of a round are wrong: deep context"
    elif 0 not in wild:
        code = "mask_bonus"
        text = "the first token of a round is right, later ones are not: mask or bonus row"
    elif wild <= {0, 1}:
        code, text = "stale_root", "the first tokens of a round are wrong: stale KV at the root"
    elif last not in wild:
        code = "leafless"
        text = (
            "all places but the last are wrong: residual, coins or thresholds "
            "(a leaf has no siblings to reject)"
        )
    else:
        return []
    return [Suspect(code=code, text=f"{text} (Z by place {shown})")]


def _other_stages(failed: set[str]) -> list[Suspect]:
    texts = {
        "turn": "the prefix cache holds KV that generation wrote wrongly: a second turn on a "
        "cached prefix fails",
        "long": "long contexts: page borders, sliding window or position range",
        "mixed": "batches that mix greedy and sampled requests",
        "soak": "late onset: the same audit passed at the start and failed at the end",
        "stop": "stop tokens or length limits in the verify path",
        "top_p": "top_p is not applied in the verify path",
        "min_p": "min_p is not applied in the verify path",
        "both": "top_k and top_p are composed in another order in the verify path",
        "grammar": "the grammar's mask in the verify path: rows of drafts are not masked, or the "
        "matcher is not rolled back over rejected drafts",
        "shapes": "what turns tokens into an answer's text: stop strings, streaming, parsers",
        "joint": "parameters that act together in the verify path (filters or penalties with a "
        "temperature), or a row that takes the parameters of another request of its batch",
        "own": "your own sampling parameters: see the claim that is marked as yours",
        "penalty": "penalties are not applied in the verify path",
    }
    return [Suspect(code="stage", text=text) for stage, text in texts.items() if stage in failed]
