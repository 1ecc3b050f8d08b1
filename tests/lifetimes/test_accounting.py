"""Memory accounting of operators: within a fifth of what the system reports, in the words of the app, and shared
buffers count once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes.accounting import Holding, Ledger
from kigen.lifetimes.intake import StreamInput
from kigen.lifetimes.runtime import TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks
from kigen.spark.session.start import WORKER_MEMORY

STREAM = "CREATE STREAM s (k BIGINT, v DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');"


def held_by(name: str, mode: str, steps: int) -> dict[str, Any]:
    script = Path(__file__).parent / "holding_process.py"
    command = [sys.executable, str(script), name, mode, str(steps)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **WORKER_MEMORY}, timeout=200
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(
    ("name", "mode", "steps", "filled"),
    [
        ("aggregate", "dt", 28, "bid [RANGE 100000 s]"),
        ("aggregate", "nt", 14, "bid [RANGE 100000 s]"),
        ("groups", "dt", 13, "GROUP BY auction, bidder: 3,250,009 groups"),
        ("join", "dt", 20, "bid [UNBOUNDED]"),
        ("join", "nt", 20, "bid [UNBOUNDED]"),
        ("distinct", "dt", 11, "DISTINCT: 2,750,009 rows"),
    ],
)
def test_own_accounting_is_within_a_fifth_of_what_the_system_says(
    name: str, mode: str, steps: int, filled: str
) -> None:
    told = held_by(name, mode, steps)
    assert told["real"] > 350_000_000
    assert told["own"] == pytest.approx(told["real"], rel=0.2)
    assert max((Holding.from_json(held) for held in told["holdings"]), key=lambda held: held.bytes).fills == filled


def kernel_of(queries: str) -> TaskRuntime:
    app = bind(STREAM + queries)
    (task,) = extract_tasks(app)
    return TaskRuntime(task, app)


def rows(count: int) -> dict[str, StreamInput]:
    number = np.arange(count)
    times = pa.array(number, pa.timestamp("us"))
    return {"s": StreamInput([pa.table({"c0": number % 7, "c1": number * 0.5, "c2": times, "_ts": number})])}


def test_a_buffer_is_counted_once_however_often_it_is_held() -> None:
    array = np.zeros(1000)
    batch = pa.record_batch({"a": pa.array(np.arange(1000))})
    ledger = Ledger()
    assert 8000 <= ledger.charge([array, array[10:], array[:5]]) < 8500
    assert ledger.charge([batch.slice(5), batch.slice(500)]) == 8000
    assert ledger.charge(batch, array) == 0


def test_what_is_not_state_costs_nothing() -> None:
    kernel = kernel_of("CREATE QUERY q AS SELECT k, SUM(v) AS v FROM s [RANGE 1 SECOND] GROUP BY k;")
    assert sum(held.bytes for held in kernel.memory()) < 10_000


def test_operators_name_their_queries_and_what_fills_them() -> None:
    kernel = kernel_of(
        "CREATE QUERY a AS SELECT k, SUM(v) AS total FROM s [RANGE 1 HOUR] GROUP BY k;"
        "CREATE QUERY b AS SELECT total FROM (SELECT k, SUM(v) AS total FROM s [RANGE 1 HOUR] GROUP BY k) AS t WHERE "
        "total > 3;"
    )
    kernel.step(rows(1000), lambda *_: None)
    found = {held.label: held for held in kernel.memory()}
    aggregate = found["aggregate sum(v) by k"]
    assert aggregate.queries == ("a", "b")
    assert aggregate.tuples == 999 + 7
    window, groups = aggregate.parts
    assert (window.what, window.tuples, window.unbounded) == ("s [RANGE 1 h]", 999, False)
    assert window.bytes >= 999 * 40
    assert groups.what == "GROUP BY k: 7 groups"
    assert found["stream s"].fills == "tuples of s that wait for their time"
    assert kernel.waiting == 1
    assert found["lines of a"].queries == ("a",)
    assert Holding.from_json(json.loads(json.dumps(aggregate.to_json()))) == aggregate


def test_what_never_dies_is_not_kept_for_its_death() -> None:
    kernel = kernel_of("CREATE QUERY a AS SELECT k, SUM(v) AS total FROM s [UNBOUNDED] GROUP BY k;")
    kernel.step(rows(1000), lambda *_: None)
    aggregate = next(held for held in kernel.memory() if held.label == "aggregate sum(v) by k")
    assert aggregate.tuples == 7
    assert aggregate.fills == "GROUP BY k: 7 groups"


@pytest.mark.parametrize(
    ("query", "text", "unbounded"),
    [
        ("SELECT k FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] WHERE v > 1", "s [RANGE 10 s SLIDE 1 s]", False),
        ("SELECT k FROM s [PARTITION BY k ROWS 3]", "s [PARTITION BY k ROWS 3]", False),
        ("SELECT DISTINCT k FROM s [UNBOUNDED]", "versions of DISTINCT", True),
        ("SELECT SUM(v) AS v FROM s [UNBOUNDED]", "versions of the aggregate over all", True),
        ("SELECT a.k FROM s [NOW] AS a, s [UNBOUNDED] AS b WHERE a.k = b.k", "pairs of join on k = k", True),
    ],
)
def test_what_fills_is_said_in_the_words_of_the_app(query: str, text: str, unbounded: bool) -> None:
    root = bind(f"{STREAM}CREATE QUERY q AS {query};").queries[0].root
    assert root.rows_text() == text
    assert root.is_unbounded is unbounded


def test_the_watch_is_called_between_operators_and_may_end_the_step() -> None:
    kernel = kernel_of("CREATE QUERY q AS SELECT k, SUM(v) AS v FROM s [RANGE 1 SECOND] GROUP BY k;")
    seen: list[str] = []
    kernel.watch = lambda node, now: seen.append(f"{type(node).__name__} {now}")
    kernel.step(rows(1000), lambda *_: None)
    assert seen == ["Scan 999", "Window 999", "Aggregate 999", "Project 999"]

    def enough(*_: object) -> None:
        raise MemoryError

    kernel.watch = enough
    with pytest.raises(MemoryError):
        kernel.step({"s": StreamInput(ended=True)})
