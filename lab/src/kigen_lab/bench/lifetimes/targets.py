"""Compares a result with the figures to reach (the table in docs/reference/benchmarks.md): the worst cell of each kind
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

STATELESS = ("selection", "projection", "union")
STATEFUL = ("join", "except", "average")
REQUIRED = ("left_join", "count_distinct", "top10", "session")  # newer constructs with figures to reach
MIDDLE = 10_000
Cell = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One figure to reach, and what was reached."""

    what: str
    target: float
    reached: float | None  # None: not measured
    where: str  # the deciding cell
    least: bool = True  # the target is a minimum, otherwise a maximum

    @property
    def met(self) -> bool | None:
        if self.reached is None:
            return None
        return self.reached >= self.target if self.least else self.reached <= self.target

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "met": self.met}


def figures(result: dict[str, Any]) -> list[Figure]:
    required = [c for c in result["cells"] if c["query"] in REQUIRED and c["window"] >= MIDDLE]
    cells: list[Cell] = [c for c in result["cells"] if not c.get("newer")]
    stateless, stateful = [c for c in cells if c["query"] in STATELESS], [c for c in cells if c["query"] in STATEFUL]
    once = [c for c in cells if c["query"] in (*STATELESS, "join")]
    return [
        _least("stateless end to end, M tuples/s", 5.0, stateless, lambda c: _rate(c, "kigen dt")),
        _least("stateless over plain", 3.0, stateless, lambda c: c["ratios"].get("kigen_over_plain")),
        _least("stateful end to end, M tuples/s", 2.0, stateful, lambda c: _rate(c, "kigen dt")),
        _least("join, average over plain", 20.0, stateful, lambda c: c["ratios"].get("kigen_over_plain")),
        _least("stateful, share of the kernel", 0.25, stateful, lambda c: c["ratios"].get("kigen_over_kernel")),
        _flatness(cells),
        _least("DT over NT, kernel, all six", 1.4, cells, lambda c: c["ratios"].get("kernel_dt_over_nt")),
        _least("DT over NT, kernel, stateless and join", 1.8, once, lambda c: c["ratios"].get("kernel_dt_over_nt")),
        _memory(result["memory"], "state_over_arrow", "memory per window tuple, saved state over Arrow"),
        _memory(result["memory"], "resident_over_arrow", "memory per window tuple, process growth over Arrow"),
        _least(
            f"LEFT JOIN, COUNT(DISTINCT), top-10, SESSION end to end at {MIDDLE:,}, M tuples/s",
            1.0,
            [c for c in required if c["window"] == MIDDLE],
            lambda c: _rate(c, "kigen dt"),
        ),
        _flatness(required, f"flatness of these from {MIDDLE:,} on"),
    ]


def _rate(cell: Cell, contestant: str) -> float | None:
    rate = cell["medians"].get(contestant)
    return None if rate is None else rate / 1e6


def _least(what: str, target: float, cells: Iterable[Cell], value: Callable[[Cell], float | None]) -> Figure:
    found = [(v, _name(c)) for c in cells if (v := value(c)) is not None]
    reached, where = min(found, default=(None, "not measured"))
    return Figure(what, target, reached, where)


def _flatness(cells: list[Cell], what: str = "flatness") -> Figure:
    """Compares the end-to-end throughput at the largest window with that at the smallest."""
    found = []
    for query, kind in {(c["query"], c["kind"]) for c in cells}:
        mine = sorted((c for c in cells if (c["query"], c["kind"]) == (query, kind)), key=lambda c: int(c["window"]))
        small, large = _rate(mine[0], "kigen dt"), _rate(mine[-1], "kigen dt")
        if len(mine) > 1 and small and large:
            found.append((large / small, f"{query} {kind} {mine[-1]['window']:,} over {mine[0]['window']:,}"))
    reached, where = min(found, default=(None, "not measured"))
    return Figure(what, 0.7, reached, where)


def _memory(measured: list[dict[str, Any]], key: str, what: str) -> Figure:
    paper = [m for m in measured if m["lifetime"] == "dt" and m["query"] in (*STATELESS, *STATEFUL)]
    found = [(float(m[key]), f"{_name(m)} {m['lifetime']}") for m in paper]
    reached, where = max(found, default=(None, "not measured"))
    return Figure(what, 3.0, reached, where, least=False)


def _name(cell: Cell) -> str:
    return f"{cell['query']} {cell['kind']} {cell['window']:,}"
