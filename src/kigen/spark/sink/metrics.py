"""Counts what a run does: tuples in and lines out per query, missed deadlines, latencies, duration of batches.

Invariant: all of it converts to JSON and back, so that the sink log carries it over a restart. Latencies are histograms
with buckets 2 % wide. Cost: a microsecond per slot of arrivals.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from kigen.connectors.values.missing_columns import Missing, merged_missing, missing_text
from kigen.connectors.values.unknown_fields import Unknown, merged
from kigen.lifetimes.accounting import Holding, Part
from kigen.plan.logical import App, Query

_GROWTH = math.log(1.02)


@dataclass
class Histogram:
    """Histogram of durations in microseconds."""

    counts: Counter[int] = field(default_factory=Counter)

    def add(self, duration_us: float, count: int = 1) -> None:
        self.counts[int(math.log(max(1.0, duration_us)) / _GROWTH)] += count

    def quantile_ms(self, share: float) -> float | None:
        return self._quantiles_ms([share])[0]

    def quantiles_ms(self, *percents: float) -> dict[str, float | None]:
        found = self._quantiles_ms([percent / 100 for percent in percents])
        return {f"p{percent}": at_ms for percent, at_ms in zip(percents, found, strict=True)}

    def _quantiles_ms(self, shares: list[float]) -> list[float | None]:
        buckets = sorted(self.counts)
        reached = list(accumulate(self.counts[bucket] for bucket in buckets))
        if not buckets or not reached[-1]:
            return [None] * len(shares)
        places = [bisect_left(reached, math.ceil(share * reached[-1])) for share in shares]
        return [round(math.exp((buckets[place] + 0.5) * _GROWTH) / 1000, 3) for place in places]

    def copy(self) -> Histogram:
        return Histogram(Counter(self.counts))

    def since(self, earlier: Histogram) -> Histogram:
        """Returns what was added after `earlier`, an older state of this histogram."""
        return Histogram(self.counts - earlier.counts)

    def bounds_ms(self) -> list[tuple[float, float, int]]:
        """Returns the buckets in order: lower and upper bound, and the number of durations between."""
        return [
            (math.exp(bucket * _GROWTH) / 1000, math.exp((bucket + 1) * _GROWTH) / 1000, self.counts[bucket])
            for bucket in sorted(self.counts)
        ]

    def to_json(self) -> dict[str, int]:
        return {str(bucket): count for bucket, count in self.counts.items()}

    @staticmethod
    def from_json(value: dict[str, int]) -> Histogram:
        return Histogram(Counter({int(bucket): count for bucket, count in value.items()}))


@dataclass
class QueryMetrics:
    """Counters of one query. The names of the fields are keys in the sink log."""

    arrived: int = 0
    out: int = 0
    missed: int = 0
    late: int = 0
    skipped: int = 0
    shed: int = 0  # removed under FIRM or SHED: counted as arrived, and as missed in the SDMR
    dropped: int = 0  # had no room in the stream's BUFFER: counted in the same way
    # Total time of the tuples that missed their deadline:
    waiting_us: int = 0  # until a batch admitted them,
    running_us: int = 0  # from then until their results were computed,
    committing_us: int = 0  # and from then until the results were durable
    latency: Histogram = field(default_factory=Histogram)
    state: dict[str, Any] = field(default_factory=lambda: state_of((), 0))  # what its operators held at the last count

    @property
    def sdmr(self) -> float:
        return (self.missed + self.shed + self.dropped) / self.arrived if self.arrived else 0.0

    def report(self, deadline_us: int | None) -> dict[str, Any]:
        return {
            "in": self.arrived,
            "out": self.out,
            "missed": self.missed,
            "shed": self.shed,
            "late": self.late,
            "skipped": self.skipped,
            "dropped": self.dropped,
            "sdmr": self.sdmr,
            "deadline_ms": None if deadline_us is None else deadline_us / 1000,
            "latency_ms": self.latency.quantiles_ms(50, 95, 99, 99.9),
            "missed_ms": {part: self._mean_ms(part) for part in ("waiting", "running", "committing")},
            "state": self.state,
        }

    def _mean_ms(self, part: str) -> float | None:
        """Returns how long a tuple that missed its deadline spent in this part on average."""
        return round(getattr(self, f"{part}_us") / self.missed / 1000, 3) if self.missed else None


def state_of(held: Iterable[Holding], peak: int) -> dict[str, Any]:
    """Sums up what a query's operators hold. An operator that queries share counts for each of them."""
    held = list(held)
    total = sum(one.bytes for one in held)
    windows = [
        {"window": part.what, "operator": one.label, **_sizes(part)}
        for one in held
        for part in one.parts
        if part.window
    ]
    return {
        "tuples": sum(one.tuples for one in held),
        "bytes": total,
        "peak_bytes": max(peak, total),
        "windows": windows,
    }


def _sizes(part: Part) -> dict[str, Any]:
    return {"unbounded": part.unbounded, "tuples": part.tuples, "bytes": part.bytes}


@dataclass
class Metrics:
    """Counters of a run."""

    queries: dict[str, QueryMetrics]
    batches: int = 0
    batch: Histogram = field(default_factory=Histogram)
    wall_us: int = 0  # including earlier runs on the checkpoint
    unknown: dict[str, Unknown] = field(default_factory=dict)  # stream -> fields that it does not declare
    missing: dict[str, Missing] = field(default_factory=dict)  # stream -> declared columns that files do not have
    _app: App | None = field(default=None, repr=False, compare=False)
    _read: dict[str, tuple[Query, tuple[str, ...]]] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def fresh(app: App) -> Metrics:
        return Metrics({query.name: QueryMetrics() for query in app.queries})

    def step(self, app: App, note: dict[str, Any]) -> list[str]:
        """Adds the counts of one task's step (kigen.spark.operator.step_note). Returns warnings of what is new."""
        for query, streams in self._counted(app, note):
            mine, counts = self.queries[query.name], note["counts"][query.name]
            shed = sum(note["shed"].get(s, 0) for s in streams)
            later = note.get("later", {}).get(query.name)
            dropped = sum(note["dropped"].get(s, 0) for s in streams) if later is None else later["dropped"]
            mine.arrived += counts["in"] + shed + dropped
            mine.shed += shed
            mine.dropped += dropped
            mine.late += counts["late"]
            if note.get("state") is not None:
                held = [Holding.from_json(value) for value in note["state"] if query.name in value["queries"]]
                mine.state = state_of(held, mine.state["peak_bytes"])
            mine.skipped += sum(note["skipped"][s][0] for s in streams if s in note["skipped"])
        for stream, fields in note.get("unknown", {}).items():
            if self._counts(stream, note):
                self.unknown[stream] = merged([self.unknown.get(stream, {}), fields])
        warnings: list[str] = []
        for stream, columns in note.get("missing", {}).items():
            if self._counts(stream, note):
                before = self.missing.get(stream, {})
                warnings += [missing_text(stream, c, at) for c, (_, at) in columns.items() if c not in before]
                self.missing[stream] = merged_missing([before, columns])
        return warnings

    def _counts(self, stream: str, note: dict[str, Any]) -> bool:
        """Whether the rows of a stream are counted by this note: of the tasks that read the stream, by the one with its
        first query."""
        first = next((name for name, (_, streams) in self._read.items() if stream in streams), None)
        return first in note["counts"]

    def committed(self, app: App, note: dict[str, Any], at_us: int, queries: Collection[str]) -> None:
        """Adds the latencies of a step's tuples for some of its queries, whose results are durable since `at_us`."""
        for query, streams in self._counted(app, note):
            if query.name not in queries:
                continue
            later = note.get("later", {}).get(query.name)  # for a slice after the first: the tuples that it processed
            arrivals = (
                [pair for s in streams for pair in note["arrivals"].get(s, ())] if later is None else later["arrivals"]
            )
            if not arrivals:
                continue
            mine = self.queries[query.name]
            for arrived_us, count in arrivals:
                mine.latency.add(at_us - arrived_us, count)
            if query.deadline_us is not None:
                late = [(arrived_us, n) for arrived_us, n in arrivals if at_us - arrived_us > query.deadline_us]
                missed = sum(count for _, count in late)
                mine.missed += missed
                mine.waiting_us += sum((note["admitted_us"] - arrived_us) * count for arrived_us, count in late)
                mine.running_us += missed * (note["done_us"] - note["admitted_us"])
                mine.committing_us += missed * (at_us - note["done_us"])

    def _counted(self, app: App, note: dict[str, Any]) -> list[tuple[Query, tuple[str, ...]]]:
        """Returns the queries of a step, each with its streams. Finding the streams of a query takes a while."""
        if self._app is not app:
            self._app, self._read = app, {query.name: (query, query.streams) for query in app.queries}
        return [self._read[name] for name in note["counts"] if name in self._read]

    def to_json(self) -> dict[str, Any]:
        queries = {name: {**m.__dict__, "latency": m.latency.to_json()} for name, m in self.queries.items()}
        return {
            "queries": queries,
            "batches": self.batches,
            "batch": self.batch.to_json(),
            "wall_us": self.wall_us,
            "unknown": self.unknown,
            "missing": self.missing,
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Metrics:
        queries = {
            n: QueryMetrics(**{**m, "latency": Histogram.from_json(m["latency"])}) for n, m in value["queries"].items()
        }
        batch, unknown = Histogram.from_json(value["batch"]), value.get("unknown", {})
        missing: dict[str, Missing] = {
            stream: merged_missing([columns]) for stream, columns in value.get("missing", {}).items()
        }
        return Metrics(queries, value["batches"], batch, value["wall_us"], unknown, missing)
