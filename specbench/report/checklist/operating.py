"""Checks of the mistakes in operating servers (O1 to O10)."""

from collections.abc import Iterable

from specbench.recording.entries import BlockEnded, RunBegun, RunResumed, TrialSealed
from specbench.report import cells
from specbench.report.checklist.answer import Answer, Case, by_flags, excluded, found, unknown
from specbench.report.inputs import Evidence
from specbench.report.numbers import show
from specbench.report.statements import count, listed

BAD_FLAG = ("bad_flag", "unknown_algorithm", "invalid_tree", "pp_unsupported")
PORT = ("port_in_use", "internal_port_busy")
LOCK = ("lock_held", "locked")


def _by_pattern(evidence: Evidence, patterns: Iterable[str], else_: Answer) -> Answer:
    names = set(patterns)
    failures = [one for one in evidence.failed_blocks if one.pattern in names]
    if not failures:
        return else_
    return found(
        f"{count(len(failures), 'launch', 'launches')}: "
        + listed([f.cause for f in failures], most=3),
        [one.block_id for one in failures],
    )


def right_server(case: Case) -> Answer:
    """O1: the old server still answered."""
    wrong = [
        one
        for one in case.evidence.failed_blocks
        if one.pattern in {"args_mismatch", "wrong_model", "wrong_process"}
    ]
    if wrong:
        return found(
            f"another server than the one asked for answered: {wrong[0].cause}",
            [one.block_id for one in wrong],
        )
    identified = [b for b, facts in case.evidence.blocks.items() if facts.server_info]
    silent = unknown("no server told its resolved arguments")
    return by_flags(
        case.evidence,
        "O1",
        else_=excluded(
            f"model, algorithm and arguments of {count(len(identified), 'server')} were compared"
            " with what was asked"
        )
        if identified
        else silent,
    )


def free_port(case: Case) -> Answer:
    """O2: port in use, found after the load."""
    checked = excluded("the port was found free before each launch")
    silent = unknown("no launch was recorded")
    return _by_pattern(case.evidence, PORT, checked if case.evidence.blocks else silent)


def flags_known(case: Case) -> Answer:
    """O3: bad flag found after the load."""
    silent = unknown("no launch was recorded")
    return _by_pattern(
        case.evidence,
        BAD_FLAG,
        excluded("no server refused its flags") if case.evidence.blocks else silent,
    )


def died_early(case: Case) -> Answer:
    """O4: waited for a server that had died."""
    failures = case.evidence.failed_blocks
    if failures:
        return found(
            f"{count(len(failures), 'launch', 'launches')} failed and ended at once, with a"
            " diagnosis (see Failures)",
            [one.block_id for one in failures],
        )
    return (
        excluded("no launch failed") if case.evidence.blocks else unknown("no launch was recorded")
    )


def sealed(case: Case) -> Answer:
    """O5: a stale result file read as new."""
    entries = [entry for entry in case.evidence.journal if isinstance(entry, TrialSealed)]
    if not entries:
        return unknown("the journal lists no sealed trial")
    listed_ids = {entry.trial_id for entry in entries}
    loose = [str(t) for t in case.evidence.trials["trial_id"] if str(t) not in listed_ids]
    if loose:
        return found(f"{count(len(loose), 'trial')} not sealed in the journal", loose)
    return excluded(
        f"all {len(case.evidence.trials)} trials are sealed in the journal by content hash"
    )


def same_code(case: Case) -> Answer:
    """O6: patched file on one host and not on the other."""
    hashes = {b: f.code_hash for b, f in case.evidence.blocks.items() if f.code_hash}
    if not hashes:
        return unknown("the servers' code was not hashed")
    if len(set(hashes.values())) > 1:
        return found(
            f"the servers ran {len(set(hashes.values()))} different code hashes", sorted(hashes)
        )
    return excluded(f"one code hash on {count(len(hashes), 'server')}")


def resumable(case: Case) -> Answer:
    """O7: laptop slept, SSH dropped, run lost."""
    if not case.evidence.journal:
        return unknown("no journal")
    starts = sum(isinstance(entry, RunBegun | RunResumed) for entry in case.evidence.journal)
    again = f"; the run was resumed {count(starts - 1, 'time')}" if starts > 1 else ""
    return by_flags(
        case.evidence, "O7", else_=excluded(f"each trial is durable once it is sealed{again}")
    )


def stopped(case: Case) -> Answer:
    """O8: stop hung while the server drained."""
    ended = [entry for entry in case.evidence.journal if isinstance(entry, BlockEnded)]
    slow = [entry.block_id for entry in ended if _overdue(entry)]
    if slow:
        return found(
            f"{count(len(slow), 'server')} did not end within the bound: past it a server is"
            " killed",
            slow,
        )
    if not ended:
        return unknown("how the servers ended was not recorded")
    known = [entry.seconds for entry in ended if entry.seconds is not None]
    longest = f"; the longest took {show(max(known))} s" if known else ""
    return excluded(f"all {len(ended)} servers stopped within their bound{longest}")


def _overdue(entry: BlockEnded) -> bool:
    seconds, bound_s = entry.seconds, entry.bound_s
    return seconds is not None and bound_s is not None and seconds > bound_s


def machine_alone(case: Case) -> Answer:
    """O9: someone else's job on the GPU."""
    if case.evidence.gpu:
        return by_flags(
            case.evidence, "O9", else_=excluded("GPU occupancy was sampled during the trials")
        )
    return by_flags(case.evidence, "O9", else_=_processors_alone(case.evidence))


def _processors_alone(evidence: Evidence) -> Answer:
    """Judge a host without GPUs by what others used of its processors."""
    good = cells.usable(evidence.trials)
    if "host_foreign_cpu_pct" not in good.columns or good.empty:
        return unknown("neither GPUs nor processors were watched")
    shares = good["host_foreign_cpu_pct"].dropna()
    if len(shares) < len(good):
        return unknown(
            "there were no GPUs to watch; what others used of the processors is known for"
            f" {len(shares)} of {count(len(good), 'trial')}"
        )
    return excluded(
        f"no GPU was in use; others used at most {show(float(shares.max()))} % of the processors"
    )


def host_locked(case: Case) -> Answer:
    """O10: two people benchmarked at once."""
    locks = [facts.lock for facts in case.evidence.blocks.values() if facts.lock]
    checked = excluded(
        f"a lock was held on the host during {count(len(locks), 'launch', 'launches')}"
    )
    silent = unknown(
        "no lock is on record: on the own machine without GPUs only the port of the server is"
        " guarded, and another run may use another port"
    )
    return _by_pattern(case.evidence, LOCK, checked if locks else silent)
