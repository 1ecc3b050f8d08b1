"""Writes the placement paper's collision warning as an app and a nodes file for two real nodes.

All times are stretched, so that the fixed cost of a micro-batch is small against them. `COST` burns what an operator
takes. All tuples of an activation arrive at once, in bursts. V2V tuples have an age when they arrive, and the centre's
are older (`delay`). O3 is on the node that the models choose for the paper's example. True costs differ from nominal
ones by the node factors that were fitted to the published figures. The number of tuples per activation is drawn from a
Poisson distribution with a seed. Invariant: two apps with the same settings differ in O3's node only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kigen.connectors import LiveSource, open_source
from kigen.placement.result import Placement
from kigen.placement.solver.solve import solve
from kigen.plan import bind
from kigen_lab.plans.paper_example import (
    CENTRE_TUPLES,
    CONTROL_US,
    INFORMATION_US,
    SENSOR_TUPLES,
    TUPLE_US,
    WARNING_US,
    paper_example,
)

ALLOCATIONS = {"DeadlineAlloc": "deadline", "ExistingAlloc": "sqpr"}
SOLVED_FOR = 15
AGE_MS, CENTRE_AGE_MS = 50.0, 60.0  # the centre's tuples are the oldest, so FIFO runs them first
TAIL = 16  # operators after O3
FACTORS = {"node1": 0.68, "node2": 1.2}


@dataclass(frozen=True)
class NodesSettings:
    """What `kigen bench nodes` runs."""

    stretch: float = 10.0
    v2v_tuples: int = 12  # on average: the paper's 15, less what a few micro-batches cost besides the work
    activations: int = 12
    edf: str = "pack:overload=edf"
    fifo: str = "fifo"
    seed: int = 2
    out: Path = Path("out/bench")

    @property
    def every_s(self) -> float:
        """Returns the time between activations: what node 2 needs for one, and a little more."""
        work_ms = FACTORS["node2"] * (self.v2v_tuples * (1 + TAIL / 2) + 2 * CENTRE_TUPLES)
        return 1.02 * work_ms * self.stretch / 1000


QUICK = NodesSettings(activations=4)


@cache
def placements() -> dict[str, Placement]:
    """Returns the node of O3 by allocation, from the models, which are solved once as in the paper."""
    return {name: solve(paper_example(SOLVED_FOR), time.monotonic, allocate) for name, allocate in ALLOCATIONS.items()}


def app_text(settings: NodesSettings, o3: str) -> str:
    """Returns the app.

    COST counts the tuples that a query takes in on its node. After O3 on the same node, only every other tuple goes on.
    """
    ms = settings.stretch / 1000  # a millisecond of the paper, in seconds here
    born_s = 0.1  # the centre's tuples; they arrive when they have their age, then V2V's, then the sensors'
    first_s = born_s + CENTRE_AGE_MS * ms
    streams = [
        _stream(settings, "sensors", SENSOR_TUPLES, first_s + 0.06, 0.0),
        _stream(settings, "v2v", settings.v2v_tuples, first_s + 0.05 - AGE_MS * ms, AGE_MS * ms),
        _stream(settings, "centre", CENTRE_TUPLES, born_s, CENTRE_AGE_MS * ms),
    ]
    warned = TAIL / 2 if o3 == "node2" else TAIL
    queries = [
        _query(settings, "control", "SELECT id FROM sensors [NOW]", "node1", 1, CONTROL_US),
        _query(settings, "o2", "SELECT id FROM v2v [NOW]", "node1", 1),
        _query(settings, "o3", "SELECT id FROM o2 WHERE id % 2 = 0", o3, 1),
        _query(settings, "warning", "SELECT id + 1 AS id FROM o3", "node2", warned, WARNING_US),
        _query(settings, "information", "SELECT id FROM centre [NOW]", "node2", 2, INFORMATION_US),
    ]
    return "\n".join([*streams, *queries])


def _stream(settings: NodesSettings, name: str, tuples: int, phase_s: float, delay_s: float) -> str:
    every_s = settings.every_s
    delayed = f", delay = '{delay_s:.3f} s'" if delay_s else ""
    return (
        f"CREATE STREAM {name} (id BIGINT) FROM synthetic (rate = {tuples / every_s:.6f}, arrivals = 'bursty', burst "
        "= 1000000, "
        f"every = '{every_s:.3f} s', lasting = '2 ms', phase = '{phase_s:.3f} s', duration = "
        f"'{every_s * settings.activations:.3f} s', "
        f"seed = {settings.seed}, id = 'sequence'{delayed});"
    )


def _query(
    settings: NodesSettings, name: str, body: str, node: str, operators: float, deadline_us: float | None = None
) -> str:
    cost_us = round(operators * TUPLE_US * settings.stretch * FACTORS[node])
    due = "" if deadline_us is None else f"DEADLINE {round(deadline_us * settings.stretch / 1000)} MILLISECONDS "
    return f"CREATE QUERY {name} {due}COST {cost_us} MICROSECONDS AS {body};"


def nodes_text(settings: NodesSettings, o3: str, ports: tuple[int, int]) -> str:
    """Returns the nodes file. The model gets nominal costs and does not know the node factors."""
    cost_us = TUPLE_US * settings.stretch
    operators = {
        "control.window": ("node1", 1),
        "o2.window": ("node1", 1),
        "o3.filter": (o3, 1),
        "warning.project": ("node2", TAIL),
        "information.window": ("node2", 2),
    }
    lines = [
        f'period = "{settings.every_s:.3f} s"',
        f'default_deadline = "{INFORMATION_US * settings.stretch / 1e6:.0f} s"',
    ]
    for node, port in zip(FACTORS, ports, strict=True):
        lines += [f"[nodes.{node}]", f'address = "127.0.0.1:{port}"']
    for stream, node in (("sensors", "node1"), ("v2v", "node1"), ("centre", "node2")):
        lines += [f"[streams.{stream}]", f'born = "{node}"']
    lines += ["[results]", 'default = "node2"', 'control = "node1"', 'o2 = "node1"', f'o3 = "{o3}"']
    for name, (node, count) in operators.items():
        lines += [f'[operators."{name}"]', f'nodes = ["{node}"]', f"cost_us = {count * cost_us:.0f}"]
        lines += ["selectivity = 0.5"] if name == "o3.filter" else []
    return "\n".join(lines) + "\n"


def bursts(settings: NodesSettings) -> list[dict[str, int]]:
    """Returns the tuples of each stream in each activation."""
    app = bind(app_text(settings, "node2"))
    counts: list[dict[str, int]] = [{} for _ in range(settings.activations)]
    for stream in app.streams:
        source = open_source(stream, ".", False, 0)
        assert isinstance(source, LiveSource)
        total = source.total()
        assert total is not None
        found = np.bincount(
            (source.arrivals_us(0, total) // round(settings.every_s * 1e6)).astype(int), minlength=settings.activations
        )
        for activation, count in zip(counts, found.tolist(), strict=True):
            activation[stream.name] = count
    return counts
