from specbench.analysis.pareto import choices, gpus_of
from specbench.analysis.totals import Totals
from specbench.model.block_facts import BlockFacts
from tests.analysis.frames import Side, recording


def test_the_fastest_is_ranked_first_at_each_load() -> None:
    trials, requests, blocks = recording(
        Side("ar", concurrency=(1, 64)),
        Side("ddtree", concurrency=(1, 64), accept_len=4.0, slowing=0.5),
    )

    found = choices(trials, blocks, Totals(requests))

    best = {c.load["concurrency"]: c.configuration["algorithm"] for c in reversed(found)}
    assert [c.load["concurrency"] for c in found] == [1, 1, 64, 64]
    assert best == {1: "ddtree", 64: "ar"}
    assert sum(c.p_best or 0 for c in found if c.load["concurrency"] == 1) == 1.0


def test_the_front_trades_user_speed_for_gpu_speed() -> None:
    trials, requests, blocks = recording(
        Side("ar", concurrency=(1, 64), slowing=0.3),
        Side("dflash", concurrency=(1, 64), accept_len=3.0, slowing=0.3),
    )

    front = {
        (c.configuration["algorithm"], c.load["concurrency"])
        for c in choices(trials, blocks, Totals(requests))
        if c.on_front
    }

    assert front == {("dflash", 1), ("dflash", 64)}


def test_what_is_not_lossless_dominates_nobody() -> None:
    trials, requests, blocks = recording(
        Side("ar"), Side("dflash", accept_len=3.0, lossless="violated")
    )

    found = {c.configuration["algorithm"]: c for c in choices(trials, blocks, Totals(requests))}

    assert found["ar"].on_front
    assert not found["dflash"].on_front


def test_a_row_in_doubt_is_shown_and_not_ranked() -> None:
    trials, requests, blocks = recording(
        Side("ar"), Side("dflash", accept_len=3.0, flags="client_saturated")
    )

    found = {c.configuration["algorithm"]: c for c in choices(trials, blocks, Totals(requests))}

    assert found["ar"].p_best == 1.0
    assert found["dflash"].p_best is None
    assert found["dflash"].doubts == ("client_saturated",)


def test_gpus_multiply_but_attention_data_parallelism_shares_them() -> None:
    sizes = {"tp_size": 8, "pp_size": 2, "dp_size": 4}

    assert gpus_of(BlockFacts(server_info=sizes)) == 64
    assert gpus_of(BlockFacts(server_info=sizes | {"enable_dp_attention": True})) == 16
    assert gpus_of(BlockFacts(server_info={"tp_size": 8})) is None
    assert gpus_of(BlockFacts()) is None


def test_unknown_gpus_and_power_stay_unknown() -> None:
    trials, requests, _ = recording(Side("ar"))

    (choice,) = choices(trials, {}, Totals(requests))

    assert choice.tok_s_gpu is None
    assert choice.joule_token is None


def test_energy_is_power_over_throughput() -> None:
    trials, requests, blocks = recording(Side("ar"))
    trials["energy_j_per_token"] = 500.0 / trials["tok_s"]

    (choice,) = choices(trials, blocks, Totals(requests))

    assert choice.joule_token is not None
    assert abs(choice.joule_token * choice.tok_s - 500.0) < 1e-6
