"""The prefix cache against a plain set of prefixes."""

from hypothesis import given
from hypothesis import strategies as st

from specbench.engine.server.prefix_cache import PrefixCache

runs = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=20)


def longest_known(known: set[tuple[int, ...]], run: list[int]) -> int:
    return max((n for n in range(len(run) + 1) if tuple(run[:n]) in known), default=0)


@given(runs, st.lists(st.integers(0, 2), max_size=8))
def test_match_is_the_longest_known_prefix(inserted: list[list[int]], probe: list[int]) -> None:
    cache: PrefixCache[list[int]] = PrefixCache()
    known: set[tuple[int, ...]] = {()}
    for run in inserted:
        cache.insert(run, run)
        known |= {tuple(run[:n]) for n in range(len(run) + 1)}

    found = cache.match(probe)

    assert found.length == longest_known(known, probe)
    assert [token for value in found.values() for token in value] == probe[: found.length]
    assert cache.size == len(known) - 1


@given(runs, st.integers(0, 60), st.data())
def test_eviction_frees_what_it_says_and_never_what_is_held(
    inserted: list[list[int]], wanted: int, data: st.DataObject
) -> None:
    cache: PrefixCache[list[int]] = PrefixCache()
    for run in inserted:
        cache.insert(run, run)
    kept = data.draw(st.sampled_from(inserted))
    node = cache.match(kept).node
    cache.hold(node)
    before, held = cache.size, cache.held

    freed = cache.evict(wanted)

    assert freed == before - cache.size
    assert freed >= min(wanted, before - held)
    assert cache.match(kept).length == len(kept)
    cache.release(node)
    assert cache.held == 0
    cache.evict(10**6)
    assert cache.size == 0


@given(runs)
def test_namespaces_never_meet(inserted: list[list[int]]) -> None:
    cache: PrefixCache[list[int]] = PrefixCache()
    for run in inserted:
        cache.insert(run, run, "a")

    assert all(cache.match(run, "b").length == 0 for run in inserted)


def test_the_least_recently_used_goes_first() -> None:
    cache: PrefixCache[str] = PrefixCache()
    cache.insert([1, 1, 1], "old")
    cache.insert([2, 2, 2], "new")
    cache.match([1, 1, 1])

    cache.evict(1)

    assert cache.match([1, 1, 1]).length == 3
    assert cache.match([2, 2, 2]).length == 0
