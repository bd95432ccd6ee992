"""What convicts a server, in words: size, place and cause, from one verdict and from its peers."""

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.backends.recorded import recorded_facts
from specbench.report.cells import plain
from specbench.report.inputs import Evidence
from specbench.report.numbers import show
from specbench.report.statements import count

Document = Mapping[str, Any]
REPRODUCED = "reproduced wrong token"
DRAFTER = {"DDTREE": "DFLASH"}
"""Tree algorithms whose drafter is that of a chain algorithm of another name."""

TREE_WORDS = (" mask", "mask of", "compaction")
TREE_CAUSE = (
    "the attention mask of the tree, or the compaction of KV along a path that is no prefix of"
    " the tree"
)


def server_of(document: Document) -> str:
    """Name the server of a verdict document."""
    server = document.get("server") or {}
    name = document.get("label") or server.get("speculative_algorithm") or server.get("algorithm")
    return str(name or document.get("block_id") or server.get("url") or "the server")


def counted(document: Document) -> list[dict[str, Any]]:
    """Give the violated claims that no documented upstream gap explains."""
    return [
        claim
        for claim in document.get("claims") or ()
        if claim.get("verdict") == "violated" and not claim.get("known_gap")
    ]


def by_tokens(claim: Document) -> bool:
    """Whether tokens that were wrong again convicted a claim, and not a p value."""
    return REPRODUCED in str(claim.get("note") or "") or claim.get("p") is None


def convicting(claim: Document) -> str | None:
    """Name the effect that convicted a claim; else its first, which is the one with an interval."""
    effects = claim.get("effect") or {}
    if by_tokens(claim) and "garbage_pct" in effects:
        return "garbage_pct"
    return next(iter(effects), None)


def effects_of(claim: Document) -> str:
    """Write a claim's effects, the convicting one first, the interval beside the one it is of."""
    effects, ends = claim.get("effect") or {}, claim.get("ci") or []
    first, lead = convicting(claim), next(iter(effects), None)
    told = []
    for name in sorted(effects, key=lambda one: one != first):
        interval = f", 95 % interval [{', '.join(show(end) for end in ends)}]" if ends else ""
        told.append(f"{name} {show(effects[name])}" + (interval if name == lead else ""))
    return "; ".join(told)


def size_of(claim: Document) -> str:
    """Say in a few words what a violated claim measured, where, and on how many tokens."""
    effects, name = claim.get("effect") or {}, convicting(claim)
    tokens = count(int(claim.get("n_tokens") or 0), "token")
    at = f"at concurrency {claim.get('concurrency')}"
    temperature = plain(claim.get("temperature"))
    if name is None:
        return f"{claim.get('name')}: {claim.get('note') or 'violated'} {at}"
    value = show(abs(effects[name]))
    match name:
        case "garbage_pct":
            kind = "greedy tokens" if temperature == 0 else f"tokens of {claim.get('name')}"
            return f"{value} % of {kind} wrong {at} ({tokens})"
        case "t_eff_pct":
            way = "hotter" if effects[name] > 0 else "colder"
            return f"sampling at temperature {temperature} {value} % {way} than asked ({tokens})"
        case "excess_greedy_pct":
            way = "too many" if effects[name] > 0 else "too few"
            return f"{value} % {way} greedy tokens at temperature {temperature} ({tokens})"
        case _:
            return f"{claim.get('name')}: {name} {show(effects[name])} {at} ({tokens})"


def sizes_of(document: Document) -> str:
    """Say the largest of what a verdict found: two places of greedy decoding, one of sampling."""
    claims = counted(document)
    greedy = [one for one in claims if plain(one.get("temperature")) == 0 and one.get("effect")]
    drawn = [
        one for one in claims if one.get("effect") and one not in greedy and not by_tokens(one)
    ]
    chosen = [*greedy[:2], *drawn[:1]] or claims[:2]
    if not chosen:
        return str(document.get("reason") or "no claim says where")
    rest = len(claims) - len(chosen)
    more = f"; {count(rest, 'more claim')} violated" if rest else ""
    return ", ".join(size_of(one) for one in chosen) + more


def is_tree(document: Document) -> bool | None:
    """Whether the server verified trees; None for a server that does not say."""
    server, levels = document.get("server") or {}, document.get("levels") or {}
    name = str(server.get("speculative_algorithm") or "").upper()
    width = server.get("speculative_eagle_topk") or levels.get("topk")
    if name in DRAFTER:
        return True
    return width > 1 if name and isinstance(width, int | float) else None


def drafter_of(document: Document, evidence: Evidence) -> tuple[str, Any]:
    """Name the drafter: its algorithm family and the path of its weights."""
    server = document.get("server") or {}
    name = str(server.get("speculative_algorithm") or "").upper()
    facts = evidence.blocks.get(str(document.get("block_id"))) or {}
    return DRAFTER.get(name, name), recorded_facts(facts).drafter


def clean_chain(document: Document, evidence: Evidence) -> Document | None:
    """Find a chain of the same drafter that holds where this tree is violated."""
    if document.get("verdict") != "violated" or not is_tree(document):
        return None
    mine = drafter_of(document, evidence)
    chains = [
        other
        for other in evidence.verdicts
        if is_tree(other) is False and drafter_of(other, evidence) == mine
    ]
    held = all(chain.get("verdict") == "holds" for chain in chains)
    return chains[0] if chains and held else None


def suspects_of(document: Document, evidence: Evidence) -> list[str]:
    """List the suspects, those of trees only first where a chain of the same drafter holds."""
    suspects = [str(one) for one in document.get("suspects") or ()]
    if clean_chain(document, evidence) is None:
        return suspects
    return sorted(suspects, key=lambda one: not of_trees(one))


def of_trees(suspect: str) -> bool:
    """Whether a suspect speaks of what a tree has and a chain has not."""
    return any(word in suspect for word in TREE_WORDS)


def first_suspect(document: Document, evidence: Evidence) -> str:
    """Name the first suspect, narrowed to trees where the other arms of the run allow it."""
    suspects = suspects_of(document, evidence)
    if not suspects:
        return ""
    narrowed = of_trees(suspects[0]) and clean_chain(document, evidence) is not None
    return TREE_CAUSE if narrowed else suspects[0]


def notes_of(document: Document) -> Sequence[str]:
    """Give the notes of a verdict's findings, which no structured field repeats."""
    _, found, rest = str(document.get("findings") or "").partition("\nNotes:\n")
    lines = rest.split("\n\n", 1)[0].splitlines() if found else []
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]
