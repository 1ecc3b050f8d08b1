"""Runs the engine from parquet files to parquet files, in one warm session.

It is a process of its own: `python -m kigen_lab.bench.lifetimes.kigen_side`.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from kigen.engine import Engine
from kigen.plan import bind
from kigen_lab.bench.latency.kigen_latency import run_kigen_latency
from kigen_lab.bench.latency.schedule import Load
from kigen_lab.bench.lifetimes.data import make_data
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME
from kigen_lab.bench.lifetimes.queries import PaperQuery, app_text, query_name
from kigen_lab.bench.steady import BatchEnd, steady_rate
from kigen_lab.bench.worker import Answer, serve

_FLOOR_APP = """
CREATE STREAM stru (ca STRING, cb BIGINT, cc STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM parquet (path = '{path}');
CREATE QUERY mean AS SELECT ca, cc, AVG(cb) AS mean, COUNT(*) AS n FROM stru [RANGE 1 SECOND] GROUP BY ca, cc
  INTO parquet (path = '{into}');
"""
_POLL_S = 0.25


def run_end_to_end(
    engine: Engine,
    query: PaperQuery,
    kind: str,
    window: int,
    lifetime: str,
    paths: dict[str, str],
    out: Path,
    batch_rows: int | None = None,
) -> Answer:
    """Does one run. All result rows are written to `out` and then deleted. `rate` is tuples per
    second in steady state.
    """
    shutil.rmtree(out, ignore_errors=True)
    app = bind(app_text(query, kind, window, paths, str(out.absolute())))
    options: dict[str, Any] = {} if batch_rows is None else {"batch_rows": batch_rows}
    run = engine.start(app, drain=True, lifetime=lifetime, keep_results=False, **options)
    try:
        run.await_end()
    finally:
        result = run.stop()
    shutil.rmtree(out, ignore_errors=True)
    counts = result.report["queries"][query_name(query)]
    ends = [BatchEnd(at_s, tuples) for at_s, tuples in run.commits]
    return {"tuples": counts["in"], "rows": counts["out"], "batches": len(ends), "rate": steady_rate(ends, window)}


def run_floor(engine: Engine, folder: Path, batches: int, tuples: int) -> Answer:
    """Runs batches of a few tuples back to back. Returns what Spark reports for each, and the times of commits."""
    data = make_data(folder / "data", ("stru",), batches * tuples, batches * tuples)
    into = folder / "kigen-floor"
    shutil.rmtree(into, ignore_errors=True)
    app = bind(_FLOOR_APP.format(path=data.paths["stru"], into=into.absolute()))
    run = engine.start(app, drain=True, keep_results=False, batch_rows=tuples)
    seen: dict[int, dict[str, Any]] = {}
    try:
        while run.active:
            time.sleep(_POLL_S)
            seen |= {batch["batchId"]: batch for batch in run.spark_progress}
        seen |= {batch["batchId"]: batch for batch in run.spark_progress}
    finally:
        run.stop()
    shutil.rmtree(into, ignore_errors=True)
    return {"progress": [seen[batch] for batch in sorted(seen)], "commits_s": [at_s for at_s, _ in run.commits]}


def run_deadlines(
    engine: Engine,
    text: str,
    folder: Path,
    policy: str,
    partitions: int | None,
    limit_s: float | None,
    epoch_s: float | None = None,
) -> Answer:
    """Runs live until all streams have ended or the time is over. Returns the report, and how many tuples were done
    when. `epoch_s` None: Kigen's default.
    """
    options: dict[str, Any] = {} if epoch_s is None else {"epoch_s": epoch_s}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    app = replace(bind(text), directory=str(folder))
    run = engine.start(app, drain=False, keep_results=False, policy=policy, partitions=partitions, **options)
    try:
        run.await_end(limit_s)
    finally:
        result = run.stop()
    return {"report": result.report, "commits": run.commits}


def main() -> None:
    engine = Engine()

    def end_to_end(request: dict[str, Any]) -> Answer:
        query = BY_NAME[request.pop("query")]
        return run_end_to_end(engine, query=query, **{**request, "out": Path(request["out"])})

    def floor(request: dict[str, Any]) -> Answer:
        return run_floor(engine, Path(request["folder"]), request["batches"], request["tuples"])

    def deadlines(request: dict[str, Any]) -> Answer:
        return run_deadlines(engine, text=request.pop("app"), **{**request, "folder": Path(request["folder"])})

    def latency(request: dict[str, Any]) -> Answer:
        load = Load(request.pop("queries"), request.pop("rate"))
        return run_kigen_latency(engine, load, **{**request, "folder": Path(request["folder"])})

    serve({"run": end_to_end, "floor": floor, "deadlines": deadlines, "latency": latency}, engine.close)


if __name__ == "__main__":
    main()
