"""Why a server is not lossless, in words: size, place and cause, from a verdict and its peers."""

from typing import Any

from specbench.backends.recorded import recorded_facts, shown_algorithm, shown_facts
from specbench.model.block_facts import BlockFacts
from specbench.model.verdict import TREE_SUSPECTS, Claim, RecordedVerdict, Suspect
from specbench.report.cells import plain
from specbench.report.inputs import Evidence
from specbench.report.numbers import show
from specbench.report.statements import count

DRAFTER = {"DDTREE": "DFLASH"}
"""Tree algorithms whose drafter is that of a chain algorithm of another name."""

TREE_CAUSE = (
    "the attention mask of the tree, or the compaction of KV along a path that is no prefix of"
    " the tree"
)


def server_of(document: RecordedVerdict) -> str:
    """Name the server of a verdict document."""
    name = shown_algorithm(document.server)
    return str(name or document.block_id or document.server.get("url") or "the server")


def counted(document: RecordedVerdict) -> list[Claim]:
    """Give the violated claims that no documented upstream gap explains."""
    return [one for one in document.claims if one.verdict == "violated" and not one.known_gap]


def by_tokens(claim: Claim) -> bool:
    """Whether tokens that were wrong again decided a claim, and not a p value."""
    return claim.ground == "witness" or claim.p is None


def deciding(claim: Claim) -> str | None:
    """Name the effect that decided a claim; else its first, which is the one with an interval."""
    if by_tokens(claim) and "garbage_pct" in claim.effect:
        return "garbage_pct"
    return next(iter(claim.effect), None)


def effects_of(claim: Claim) -> str:
    """Write a claim's effects, the deciding one first, the interval beside the one it is of."""
    effects, ends = claim.effect, claim.ci
    first, lead = deciding(claim), next(iter(effects), None)
    told = []
    for name in sorted(effects, key=lambda one: one != first):
        interval = f", 95 % interval [{', '.join(show(end) for end in ends)}]" if ends else ""
        told.append(f"{name} {show(effects[name])}" + (interval if name == lead else ""))
    return "; ".join(told)


def size_of(claim: Claim) -> str:
    """Say in a few words what a violated claim measured, where, and on how many tokens."""
    effects, name = claim.effect, deciding(claim)
    tokens = count(claim.n_tokens, "token")
    at = f"at concurrency {claim.concurrency}"
    temperature = plain(claim.temperature)
    if name is None:
        return f"{claim.name}: {claim.note or 'violated'} {at}"
    value = show(abs(effects[name]))
    match name:
        case "garbage_pct":
            kind = "greedy tokens" if temperature == 0 else f"tokens of {claim.name}"
            return f"{value} % of {kind} wrong {at} ({tokens})"
        case "t_eff_pct":
            way = "hotter" if effects[name] > 0 else "colder"
            return f"sampling at temperature {temperature} {value} % {way} than asked ({tokens})"
        case "excess_greedy_pct":
            way = "too many" if effects[name] > 0 else "too few"
            return f"{value} % {way} greedy tokens at temperature {temperature} ({tokens})"
        case _:
            return f"{claim.name}: {name} {show(effects[name])} {at} ({tokens})"


def sizes_of(document: RecordedVerdict) -> str:
    """Say the largest of what a verdict found: two places of greedy decoding, one of sampling."""
    claims = counted(document)
    greedy = [one for one in claims if one.temperature == 0 and one.effect]
    drawn = [one for one in claims if one.effect and one not in greedy and not by_tokens(one)]
    chosen = [*greedy[:2], *drawn[:1]] or claims[:2]
    if not chosen:
        return document.reason or "no claim says where"
    rest = len(claims) - len(chosen)
    more = f"; {count(rest, 'more claim')} violated" if rest else ""
    return ", ".join(size_of(one) for one in chosen) + more


def is_tree(document: RecordedVerdict) -> bool | None:
    """Whether the server verified trees; None for a server that does not say."""
    said = shown_facts(document.server)
    name = str(said.algorithm or "").upper()
    width = said.tree_width or document.levels.get("topk")
    if name in DRAFTER:
        return True
    return width > 1 if name and isinstance(width, int | float) else None


def drafter_of(document: RecordedVerdict, evidence: Evidence) -> tuple[str, Any]:
    """Name the drafter: its algorithm family and the path of its weights."""
    name = str(shown_facts(document.server).algorithm or "").upper()
    facts = evidence.blocks.get(document.block_id) or BlockFacts()
    return DRAFTER.get(name, name), recorded_facts(facts).drafter


def clean_chain(document: RecordedVerdict, evidence: Evidence) -> RecordedVerdict | None:
    """Find a chain of the same drafter that holds where this tree is violated."""
    if document.verdict != "violated" or not is_tree(document):
        return None
    mine = drafter_of(document, evidence)
    chains = [
        other
        for other in evidence.verdicts
        if is_tree(other) is False and drafter_of(other, evidence) == mine
    ]
    held = all(chain.verdict == "holds" for chain in chains)
    return chains[0] if chains and held else None


def suspects_of(document: RecordedVerdict, evidence: Evidence) -> list[Suspect]:
    """List the suspects, those of trees only first where a chain of the same drafter holds."""
    suspects = list(document.suspects)
    if clean_chain(document, evidence) is None:
        return suspects
    return sorted(suspects, key=lambda one: one.code not in TREE_SUSPECTS)


def first_suspect(document: RecordedVerdict, evidence: Evidence) -> str:
    """Name the first suspect, narrowed to trees where the other arms of the run allow it."""
    suspects = suspects_of(document, evidence)
    if not suspects:
        return ""
    first = suspects[0]
    narrowed = first.code in TREE_SUSPECTS and clean_chain(document, evidence) is not None
    return TREE_CAUSE if narrowed else first.text
