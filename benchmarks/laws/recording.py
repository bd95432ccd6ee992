"""A recording of known truth: the tables that `compare` reads, from laws of noise."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.laws.queue import Engine
from benchmarks.laws.replies import Prompts, Workload, draw_prompts, truth_of_such, truth_of_these
from benchmarks.laws.restarts import Order, Restarts, launches, positions, trials
from benchmarks.laws.rows import Faults, Group, request_rows, trial_rows
from specbench.model.block_facts import BlockFacts
from specbench.model.plan import LaunchSpec

Array = NDArray[np.float64]

ARMS = ("chain", "tree")
"""Two speculative algorithms; the second one is compared with the first."""


@dataclass(frozen=True)
class Design:
    """What is launched and asked: the cells are all combinations of the levels.

    Each budget is a server of its own; temperatures and concurrencies share its launches.
    `order` is that of the arms over the rounds of launches.
    """

    launches: int = 3
    trials: int = 1
    concurrency: tuple[int, ...] = (4,)
    temperature: tuple[float, ...] = (1.0,)
    budget: tuple[int, ...] = (7,)
    order: Order = "ABBA"

    @property
    def cells(self) -> int:
        """How many matched cells two arms make."""
        return len(self.concurrency) * len(self.temperature) * len(self.budget)


@dataclass(frozen=True)
class Law:
    """Everything that is drawn. `gain` is the second arm's true speed-up (0.05: 5 % faster).

    `gains` replaces it at some concurrencies; `gain_sd` lets the true effect (a log) differ from
    cell to cell; `budget_sd` lets servers of another budget be faster or slower on both arms.
    """

    workload: Workload = field(default_factory=Workload)
    restarts: Restarts = field(default_factory=Restarts)
    engine: Engine = field(default_factory=Engine)
    faults: Faults = field(default_factory=Faults)
    gain: float = 0.0
    gains: Mapping[int, float] | None = None
    gain_sd: float = 0.0
    budget_sd: float = 0.0


Key = tuple[int, float, int]
"""A matched cell: budget, temperature, concurrency."""


@dataclass(frozen=True)
class Simulated:
    """The tables of one comparison, and what is true of each matched cell (logs of B over A).

    `kind` is true of the kind of cells that these ones are drawn from, `budgets` the log speed of
    servers of a budget, on both arms.
    """

    trials: pd.DataFrame
    requests: pd.DataFrame
    blocks: dict[str, BlockFacts]
    these: dict[Key, float]
    such: dict[Key, float]
    gains: dict[Key, float]
    budgets: dict[int, float]
    kind: float

    def first(self, launches: int) -> "Simulated":
        """Give what had been recorded after that many rounds of launches."""
        trials = self.trials[self.trials["launch"] < launches].reset_index(drop=True)
        requests = self.requests[self.requests["trial_id"].isin(trials["trial_id"])]
        return replace(self, trials=trials, requests=requests.reset_index(drop=True))


def simulate(design: Design, law: Law, random: np.random.Generator) -> Simulated:
    """Make one recording of two arms."""
    prompts = draw_prompts(law.workload, random)
    gains = _gains(design, law, random)
    budgets = {b: law.budget_sd * random.normal() for b in design.budget}
    paces = _paces(design, law, random)
    paces = paces - np.array(list(budgets.values()))[None, :, None, None, None, None]
    when = _when(design)
    groups = [
        Group(
            concurrency=concurrency,
            temperature=temperature,
            budgets=design.budget,
            pace=paces[:, :, :, t, c, :],
            when=when,
            gain=np.array([gains[budget, temperature, concurrency] for budget in design.budget]),
            place=c * len(design.temperature) + t,
        )
        for c, concurrency in enumerate(design.concurrency)
        for t, temperature in enumerate(design.temperature)
    ]
    return _tables(groups, law, prompts, gains, budgets, random)


def _tables(
    groups: list[Group], law: Law, prompts: Prompts, gains: dict[Key, float],
    budgets: dict[int, float], random: np.random.Generator,
) -> Simulated:  # fmt: skip
    asked = [
        (group, request_rows(group, law.workload, law.engine, law.faults, prompts, random))
        for group in groups
    ]
    requests = pd.concat([part.table for _, part in asked], ignore_index=True)
    rows = pd.concat([trial_rows(group, part) for group, part in asked], ignore_index=True)
    rows = rows.sort_values("started_at", kind="stable", ignore_index=True)
    own = {
        greedy: truth_of_these(law.workload, prompts, random, greedy=greedy)
        for greedy in (True, False)
    }
    return Simulated(
        trials=rows,
        requests=requests,
        blocks={str(block): _block(str(block)) for block in rows["block_id"].unique()},
        these={key: gain + own[key[1] == 0] for key, gain in gains.items()},
        such={
            key: gain + truth_of_such(law.workload, greedy=key[1] == 0)
            for key, gain in gains.items()
        },
        gains=gains,
        budgets=budgets,
        kind=float(np.log1p(law.gain)),
    )


def _gains(design: Design, law: Law, random: np.random.Generator) -> dict[Key, float]:
    found = {}
    for budget in design.budget:
        for temperature in design.temperature:
            for concurrency in design.concurrency:
                gain = (law.gains or {}).get(concurrency, law.gain)
                own = float(np.log1p(gain)) + law.gain_sd * random.normal()
                found[budget, temperature, concurrency] = own
    return found


def _when(design: Design) -> NDArray[np.int64]:
    """Place in the run of each (arm, budget, launch): all servers of a round, then back."""
    servers = len(ARMS) * len(design.budget)
    flat = positions(design.order, servers, design.launches)
    return flat.reshape(len(ARMS), len(design.budget), design.launches)


def _paces(design: Design, law: Law, random: np.random.Generator) -> Array:
    """Log of the time by arm, budget, launch, temperature, concurrency and trial."""
    when = _when(design)
    servers = len(ARMS) * len(design.budget)
    by_launch = launches(law.restarts, random, when.size, servers)[when][..., None, None]
    loads = (*when.shape, len(design.temperature), len(design.concurrency))
    by_cell = by_launch + law.restarts.cell_sd * random.normal(size=loads)
    return by_cell[..., None] + trials(law.restarts, random, (*loads, design.trials))


def _block(block: str) -> BlockFacts:
    algorithm = block.split(".", maxsplit=1)[0]
    spec = LaunchSpec(
        fingerprint=algorithm,
        algorithm=algorithm,
        speculative=True,
        model_path="/models/m",
        served_name="m",
        flags=(("speculative-algorithm", algorithm.upper()),),
    )
    return BlockFacts(
        block_id=block,
        spec=spec,
        version="0.5.23",
        server_info={"tp_size": 1, "pp_size": 1, "dp_size": 1, "max_running_requests": 512,
                     "speculative_algorithm": algorithm.upper()},
        client={"host": "laptop", "drive_from": "here"},
    )  # fmt: skip
