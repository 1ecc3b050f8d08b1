"""Measures the lifetime paper's six queries end to end on Spark, in plain Structured Streaming and in the kernel alone;
and queries over newer constructs on Spark and in the kernel alone.

Contestants take turns within each trial, and each trial begins with another one, so that other load on the machine
affects all of them. The result rows of all contestants are counted and compared: a fast wrong answer is reported as
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from kigen_lab.bench.lifetimes.data import Data, make_data
from kigen_lab.bench.lifetimes.kernel import run_kernel
from kigen_lab.bench.lifetimes.memory import SMALLEST_WINDOW, window_memory
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME, PARTS
from kigen_lab.bench.lifetimes.queries import KINDS, WINDOWS, PaperQuery
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.registration import Say
from kigen_lab.bench.worker import Contestant, ContestantFailed
from kigen_lab.bench.workspace import workspace

FILE_ROWS = 250_000
PLAIN_FILES_PER_BATCH = 4  # for queries that are slow in plain Structured Streaming
PLAIN_TUPLES_PER_BATCH = 4_000_000  # for stateless queries: as many as Kigen's largest batches hold
TAIL_ROWS = 64  # rows that may be undetermined at the end on one side only


@dataclass(frozen=True)
class Settings:
    """What `kigen bench lifetimes` measures."""

    queries: tuple[str, ...] = tuple(query.name for query in PARTS["all"])
    windows: tuple[int, ...] = WINDOWS
    kinds: tuple[str, ...] = KINDS
    lifetimes: tuple[str, ...] = ("dt", "nt")
    trials: int = 3
    nt_trials: int = 3  # of the negative-tuple method end to end, which no target concerns
    # At least so many per run end to end, half of it for joins and groups, so that batches grow to their full size.
    tuples: int = 24_000_000
    newer_tuples: int = 6_000_000  # at least so many per run end to end of the queries over newer constructs
    kernel_tuples: int = 4_000_000  # per run of the kernel alone
    exactly: bool = False  # use exactly `tuples`, even if large windows are then never full
    plain_tuples: int = 400_000  # for queries that are slow in plain Structured Streaming
    batch_rows: int = 500_000
    out: Path = Path("out/bench")
    memory: bool = True

    def tuples_for(self, query: PaperQuery, window: int) -> int:
        """Returns a number of tuples that makes whole batches: at least five, and more when the window is full."""
        if query.newer:
            return self._whole_batches(self.newer_tuples, window)
        return self._whole_batches(self.tuples // 2 if query.stateful and not self.exactly else self.tuples, window)

    def kinds_for(self, query: PaperQuery) -> tuple[str, ...]:
        """Returns the kinds of windows to measure a query with. Those of sessions, for example, always count."""
        return tuple(kind for kind in query.kinds if kind in self.kinds or kind not in KINDS)

    def nt_trials_for(self, query: PaperQuery) -> int:
        return min(1, self.nt_trials) if query.newer else self.nt_trials

    def kernel_tuples_for(self, window: int) -> int:
        return self._whole_batches(self.kernel_tuples, window)

    def _whole_batches(self, least: int, window: int) -> int:
        if self.exactly:
            return self.tuples
        wanted = max(least, min(4 * window, window + 3_000_000), 5 * self.batch_rows)
        return -(-wanted // self.batch_rows) * self.batch_rows


@dataclass
class Cell:
    """One query with one kind and size of window: what every contestant did in each trial."""

    query: PaperQuery
    kind: str
    window: int
    tuples: int
    why_not_plain: str | None
    plain_tuples: int | None = None
    plain_store: str | None = None
    rates: dict[str, list[float]] = field(default_factory=dict)  # contestant -> tuples per second, one number per trial
    rows: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def medians(self) -> dict[str, float]:
        return {name: median(rates) for name, rates in self.rates.items()}


class LifetimesBench:
    """Runs all cells. If a contestant fails, what was measured so far is kept."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self.settings, self._say = settings, say
        self._work = settings.out
        self._stores: dict[str, str] = {}  # query -> its faster state store
        self._store_rates: dict[str, dict[str, float]] = {}
        self.failed: str | None = None  # why it ended early

    @property
    def cells(self) -> list[Cell]:
        s = self.settings
        return [
            Cell(BY_NAME[name], kind, window, s.tuples_for(BY_NAME[name], window), BY_NAME[name].why_not_plain(kind))
            for name in s.queries
            for kind in s.kinds_for(BY_NAME[name])
            for window in s.windows
        ]

    @property
    def steps(self) -> int:
        return len(self.cells) * self.settings.trials

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        machine, cells, memory = describe_machine(), self.cells, []
        with (
            workspace(self.settings.out) as self._work,
            Contestant("kigen_lab.bench.lifetimes.kigen_side", self._work / "kigen.log") as kigen,
            Contestant("kigen_lab.bench.lifetimes.plain_side", self._work / "plain.log") as plain,
        ):
            try:
                self._run_cells(cells, kigen, plain, advance)
            except (ContestantFailed, KeyboardInterrupt) as error:  # what was measured is kept
                self.failed = str(error) or "interrupted"
        if self.settings.memory and self.failed is None:
            memory = list(self._memory())
        return self._result(machine, [c for c in cells if c.rates], memory)

    def _run_cells(self, cells: list[Cell], kigen: Contestant, plain: Contestant, advance: Callable[[], None]) -> None:
        for name in self.settings.queries:
            self._say(f"{name}: warming up")
            self._warm_up(BY_NAME[name], kigen, plain)
            for cell in (c for c in cells if c.query.name == name):
                for trial in range(self.settings.trials):
                    self._trial(cell, trial, kigen, plain)
                    advance()
                self._check(cell)

    def _trial(self, cell: Cell, trial: int, kigen: Contestant, plain: Contestant) -> None:
        turns: list[tuple[str, Callable[[], tuple[float, int]]]] = []
        for lifetime in self.settings.lifetimes:
            if lifetime == "dt" or trial < self.settings.nt_trials_for(cell.query):
                turns.append((f"kigen {lifetime}", partial(self._kigen, cell, kigen, lifetime)))
            if lifetime == "dt" or trial == 0 or not cell.query.newer:
                turns.append((f"kernel {lifetime}", partial(self._kernel, cell, lifetime)))
        if cell.why_not_plain is None:
            turns.append(("plain", partial(self._plain, cell, plain)))
        for i in range(len(turns)):
            contestant, run = turns[(i + trial) % len(turns)]
            self._say(f"{cell.query.name} {cell.kind} {cell.window:,}: {contestant}, trial {trial + 1}")
            rate, rows = run()
            cell.rates.setdefault(contestant, []).append(rate)
            if cell.rows.setdefault(contestant, rows) != rows:
                cell.warnings.append(f"{contestant}: {rows} rows in trial {trial + 1}, {cell.rows[contestant]} before")

    def _kigen(self, cell: Cell, kigen: Contestant, lifetime: str) -> tuple[float, int]:
        data = self._data(cell.query, cell.tuples, window=cell.window)
        request = {
            "query": cell.query.name,
            "kind": cell.kind,
            "window": cell.window,
            "lifetime": lifetime,
            "paths": data.paths,
        }
        answer = kigen.ask(do="run", **request, out=str(self._work / "kigen"), batch_rows=self.settings.batch_rows)
        return answer["rate"], answer["rows"]

    def _kernel(self, cell: Cell, lifetime: str) -> tuple[float, int]:
        tuples = self.settings.kernel_tuples_for(cell.window)
        run = run_kernel(cell.query, cell.kind, cell.window, lifetime, tuples, self.settings.batch_rows)
        return run.rate, run.rows

    def _plain(self, cell: Cell, plain: Contestant) -> tuple[float, int]:
        cell.plain_store = self._stores.get(cell.query.name)
        answer = self._ask_plain(cell.query, cell.window, cell.tuples, plain, cell.plain_store or "memory")
        cell.plain_tuples = answer["tuples"]
        return answer["rate"], answer["rows"]

    def _ask_plain(self, query: PaperQuery, window: int, tuples: int, plain: Contestant, store: str) -> dict[str, Any]:
        if query.stateful:
            slow = min(tuples, self.settings.plain_tuples)
            data, files = self._data(query, slow, slow // (5 * PLAIN_FILES_PER_BATCH)), PLAIN_FILES_PER_BATCH
        else:
            data = self._data(query, tuples)
            files = max(1, PLAIN_TUPLES_PER_BATCH // (data.file_rows * len(query.streams)))
        request = {"query": query.name, "window": window, "paths": data.paths, "files_per_batch": files, "store": store}
        return plain.ask(do="run", **request, out=str(self._work / "plain"))

    def _data(self, query: PaperQuery, tuples: int, file_tuples: int | None = None, window: int = 0) -> Data:
        """Returns files of a quarter of a million tuples over all streams, or smaller ones if that gave fewer than five
        batches.
        """
        rows = file_tuples or min(FILE_ROWS, max(1, tuples // (4 * PLAIN_FILES_PER_BATCH)))
        each = max(1, rows // len(query.streams))
        return make_data(self.settings.out / "data", query.streams, tuples, each, window)

    def _warm_up(self, query: PaperQuery, kigen: Contestant, plain: Contestant) -> None:
        """Runs both sides once without measuring. Then compares the state stores of plain Spark; the faster one
        competes.
        """
        window, tuples = min(self.settings.windows), 2 * self.settings.batch_rows
        for kind in self.settings.kinds_for(query)[:1]:
            for lifetime in self.settings.lifetimes:
                self._kigen(Cell(query, kind, window, tuples, None), kigen, lifetime)
                run_kernel(query, kind, window, lifetime, tuples, self.settings.batch_rows)
        if "range" not in self.settings.kinds or query.why_not_plain("range") is not None:
            return
        self._ask_plain(
            query,
            window,
            self.settings.plain_tuples // 5 if query.stateful else 2 * PLAIN_TUPLES_PER_BATCH,
            plain,
            "memory",
        )
        if query.stateful:
            some = self.settings.plain_tuples // 2
            rates = {
                store: self._ask_plain(query, window, some, plain, store)["rate"] for store in ("rocksdb", "memory")
            }
            self._store_rates[query.name] = rates
            self._stores[query.name] = max(rates, key=lambda store: rates[store])

    def _check(self, cell: Cell) -> None:
        """Compares row counts.

        Kigen and the kernel must give the same number of rows for the same tuples, with both methods. Plain Spark must
        agree up to the tail.
        """
        reference = run_kernel(cell.query, cell.kind, cell.window, "dt", cell.tuples, self.settings.batch_rows).rows
        for name, rows in cell.rows.items():
            if name.startswith("kigen") and rows != reference:
                cell.warnings.append(f"{name}: {rows} rows, the kernel alone {reference}")
        kernels = {name: rows for name, rows in cell.rows.items() if name.startswith("kernel")}
        if len(set(kernels.values())) > 1:
            cell.warnings.append(f"rows differ: {kernels}")
        if "plain" not in cell.rows or cell.plain_tuples is None:
            return
        run = run_kernel(cell.query, cell.kind, cell.window, "dt", cell.plain_tuples, max(1, cell.plain_tuples // 5))
        if abs(cell.rows["plain"] - run.rows) > TAIL_ROWS:
            cell.warnings.append(
                f"plain: {cell.rows['plain']} rows of {cell.plain_tuples} tuples, Kigen's kernel {run.rows}"
            )

    def _memory(self) -> Iterator[dict[str, Any]]:
        window = max(self.settings.windows)
        if window < SMALLEST_WINDOW:
            return
        for name in (name for name in self.settings.queries if not BY_NAME[name].newer):
            for kind in self.settings.kinds_for(BY_NAME[name]):
                for lifetime in self.settings.lifetimes:
                    self._say(f"{name} {kind} {window:,}: memory, {lifetime}")
                    yield window_memory(BY_NAME[name], kind, window, lifetime)

    def _result(self, machine: dict[str, Any], cells: list[Cell], memory: list[dict[str, Any]]) -> dict[str, Any]:
        s = self.settings
        return {
            "bench": "lifetimes",
            "machine": machine,
            "settings": {
                "trials": s.trials,
                "batch_rows": s.batch_rows,
                "tuples": s.tuples,
                "newer_tuples": s.newer_tuples,
                "plain_tuples_stateful": s.plain_tuples,
            },
            "failed": self.failed,
            "plain_state_stores": self._store_rates,
            "cells": [cell_json(cell) for cell in cells],
            "memory": memory,
        }


def cell_json(cell: Cell) -> dict[str, Any]:
    medians = cell.medians()
    return {
        "query": cell.query.name,
        "newer": cell.query.newer,
        "kind": cell.kind,
        "window": cell.window,
        "tuples": cell.tuples,
        "plain_tuples": cell.plain_tuples,
        "plain_store": cell.plain_store,
        "why_not_plain": cell.why_not_plain,
        "rates": {name: [round(rate) for rate in rates] for name, rates in cell.rates.items()},
        "medians": {name: round(rate) for name, rate in medians.items()},
        "ratios": ratios(medians),
        "rows": cell.rows,
        "warnings": cell.warnings,
    }


def ratios(medians: dict[str, float]) -> dict[str, float]:
    pairs = {
        "kigen_over_plain": ("kigen dt", "plain"),
        "kigen_over_kernel": ("kigen dt", "kernel dt"),
        "kernel_dt_over_nt": ("kernel dt", "kernel nt"),
        "kigen_dt_over_nt": ("kigen dt", "kigen nt"),
    }
    return {name: round(medians[a] / medians[b], 3) for name, (a, b) in pairs.items() if a in medians and b in medians}
