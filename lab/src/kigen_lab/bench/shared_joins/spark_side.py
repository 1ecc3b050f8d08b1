"""Runs families of joins on Spark in one warm session: from parquet files to parquet files, or live and overloaded.

It is a process of its own: `python -m kigen_lab.bench.shared_joins.spark_side`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from kigen.engine import Engine
from kigen_lab.bench.shared_joins.app import Family
from kigen_lab.bench.steady import BatchEnd, steady_rate
from kigen_lab.bench.worker import Answer, serve


def run_on_spark(
    engine: Engine, family: Family, lifetime: str, paths: dict[str, str], out: Path, batch_rows: int
) -> Answer:
    """Does one run. All result rows are written below `out` and then deleted."""
    shutil.rmtree(out, ignore_errors=True)
    run = engine.start(
        family.app(paths, str(out.absolute())), drain=True, lifetime=lifetime, keep_results=False, batch_rows=batch_rows
    )
    try:
        run.await_end()
    finally:
        result = run.stop()
    shutil.rmtree(out, ignore_errors=True)
    counts = result.report["queries"].values()
    ends = [BatchEnd(at_s, tuples) for at_s, tuples in run.commits]
    rows, rate = sum(c["out"] for c in counts), steady_rate(ends, 2 * family.widest)
    return {"tuples": ends[-1].tuples, "rows": rows, "batches": len(ends), "rate": rate}


def run_overloaded(engine: Engine, text: str, policy: str, lifetime: str, out: Path) -> Answer:
    """Runs a live app to its end. Returns what the report says of each query, and the costs learnt."""
    shutil.rmtree(out, ignore_errors=True)
    result = engine.run(
        text=text, drain=False, policy=policy, lifetime=lifetime, output=str(out.absolute()), keep_results=False
    )
    shutil.rmtree(out, ignore_errors=True)
    queries = {
        name: {"in": told["in"], "dropped": told["dropped"], "p50_ms": told["latency_ms"]["p50"]}
        for name, told in result.report["queries"].items()
    }
    return {"queries": queries, "finished": result.finished, "costs": result.report["costs"]}


def main() -> None:
    engine = Engine()

    def run(request: dict[str, Any]) -> Answer:
        family = Family(**request.pop("family"))
        return run_on_spark(engine, family, **{**request, "out": Path(request["out"])})

    def overload(request: dict[str, Any]) -> Answer:
        return run_overloaded(engine, **{**request, "out": Path(request["out"])})

    serve({"run": run, "overload": overload}, engine.close)


if __name__ == "__main__":
    main()
