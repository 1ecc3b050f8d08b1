"""What a run gives back: the report of DESIGN 8.2, and results as DataFrames."""

from __future__ import annotations

import shutil
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kigen.engine.options import RunOptions
from kigen.plan.logical import App
from kigen.spark.sink.metrics import Metrics
from kigen.spark.sink.results import results_frame

Report = dict[str, Any]


@dataclass(frozen=True)
class QueryProgress:
    arrived: int
    out: int
    waiting: (
        int | None
    )  # tuples in its task's queue, when the last batch was admitted; None if nothing is queued for it
    p95_ms: float | None
    deadline_ms: float | None
    sdmr: float


@dataclass(frozen=True)
class Progress:
    fraction: float | None  # of finite inputs, 0..1
    batches: int
    queries: dict[str, QueryProgress]
    live: bool = False  # tuples arrive as time passes, and a policy admits them
    policy: str = ""
    k: int | None = None  # basic batches in a scheduling batch, where the policy has such
    overloaded: bool = False
    doing: str | None = None  # what the batch that runs now is at
    read: int = 0  # tuples of it that are passed, beside those of the queries
    reached_us: int | None = None  # the event time that it has come to
    memory: int = 0  # bytes that the workers use, as far as they are on this machine


def report_of(app: App, options: RunOptions, metrics: Metrics, wall_s: float, policy: dict[str, Any]) -> Report:
    return {
        "policy": options.scheduling[0],
        "lifetime": options.lifetime,
        "wall_s": round(wall_s, 3),
        "batches": metrics.batches,
        "batch_ms": metrics.batch.quantiles_ms(50, 95),
        "queries": {query.name: metrics.queries[query.name].report(query.deadline_us) for query in app.queries},
        "costs": policy.get("costs"),  # what the cost model has learnt: of a micro-batch, and of each task's tuples
    }


class RunResult:
    """Results live in a temporary directory, deleted with this object, unless the run had a checkpoint to keep them
    in."""

    def __init__(
        self, app: App, report: Report, finished: bool, results: Path | None, spark: Any, scratch: Path
    ) -> None:
        self.report, self.finished = report, finished
        self._app, self._results, self._spark = app, results, spark
        self._finalizer = weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)

    def dataframe(self, query: str) -> Any:
        """The query's result lines as a Spark DataFrame: its columns, then `_from` and `_to`, or `_at`, as
        timestamps."""
        found = next((q for q in self._app.queries if q.name == query), None)
        if found is None:
            raise KeyError(f"no query '{query}': there is {', '.join(q.name for q in self._app.queries)}")
        if self._results is None:
            raise ValueError("the run kept no results: start it with keep_results=True")
        return results_frame(self._spark, found, self._results)
