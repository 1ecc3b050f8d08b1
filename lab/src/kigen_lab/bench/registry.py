"""Lists the benchmarks of `kigen bench`, in the order of its help. A new one is a folder and a line here."""

from __future__ import annotations

from kigen_lab.bench.admission.registered import ADMISSION
from kigen_lab.bench.connectors.registered import CONNECTORS
from kigen_lab.bench.deadlines.registered import DEADLINES
from kigen_lab.bench.floor.registered import FLOOR
from kigen_lab.bench.idle.registered import IDLE
from kigen_lab.bench.joins.registered import JOINS
from kigen_lab.bench.latency.registered import LATENCY
from kigen_lab.bench.lifetimes.registered import LIFETIMES
from kigen_lab.bench.links.registered import LINKS
from kigen_lab.bench.nodes.registered import NODES
from kigen_lab.bench.placement.registered import PLACEMENT
from kigen_lab.bench.recovery.registered import RECOVERY
from kigen_lab.bench.registration import Benchmark
from kigen_lab.bench.shared_joins.registered import SHARED_JOINS
from kigen_lab.bench.standby.registered import STANDBY

BENCHMARKS: tuple[Benchmark, ...] = (
    LIFETIMES,
    FLOOR,
    LATENCY,
    DEADLINES,
    RECOVERY,
    ADMISSION,
    IDLE,
    SHARED_JOINS,
    JOINS,
    LINKS,
    PLACEMENT,
    NODES,
    STANDBY,
    CONNECTORS,
)
