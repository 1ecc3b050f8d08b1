"""Where the tasks of a change begin: added queries with the run, changed ones where the old ones ended."""

from __future__ import annotations

from typing import Any

from kigen.connectors.registry import open_source
from kigen.engine.changes.difference import difference
from kigen.engine.changes.planned import planned_change
from kigen.engine.changes.starts import begun_us, with_starts
from kigen.engine.checkpoint.app_record import first_record
from kigen.engine.checkpoint.fingerprint import fingerprint
from kigen.plan import bind
from kigen.plan.logical import App
from kigen.spark.admission.stand import Stand

BEFORE = """CREATE STREAM s (a BIGINT) FROM synthetic (rate = 100, seed = 3, a = 'sequence');
CREATE QUERY ahead DEADLINE 1 SECONDS FIRM AS SELECT a FROM s [NOW];
CREATE QUERY behind AS SELECT a, 2 * a AS b FROM s [ROWS 3];
"""
NOW_US = 1_000_000


def marks(app: App) -> dict[str, Any]:
    return fingerprint(app, "direct", False, None, "1", [])


def begins(after: str) -> dict[str, int]:
    """Returns the index at which each query begins in the stream after a change of BEFORE; kept ones are left out."""
    before, declared = bind(BEFORE), bind(after)
    record = first_record(before, marks(before))
    places = {"ahead": 900, "behind": 700}
    queues = {
        task.name: {"s": {"index": min(places[q.name] for q in task.queries), "progress": 5, "ended": False}}
        for task in record.tasks
    }
    assert len(queues) == 2, "the queries are in tasks of their own"
    stand = Stand(4, 0, {}, queues)
    mine = marks(declared)
    planned = planned_change(record, declared, mine, difference(record.fingerprint, mine), stand)
    sources = {stream.name: open_source(stream, ".", False, 0, "") for stream in planned.app.streams}
    starts = with_starts(planned, stand, sources, begun_us(planned, stand, NOW_US), record.tasks).starts
    return {q.name: starts[t.name]["s"]["cursor"]["index"] for t in planned.added_tasks for q in t.queries}


def test_an_added_query_begins_where_the_run_is() -> None:
    assert begins(BEFORE + "CREATE QUERY more AS SELECT a + 1 AS c FROM s [NOW];") == {"more": 900}


def test_a_changed_query_begins_where_the_old_one_ended() -> None:
    assert begins(BEFORE.replace("2 * a", "3 * a")) == {"behind": 700}
    assert begins(BEFORE.replace("SELECT a FROM", "SELECT a + 1 AS c FROM")) == {"ahead": 900}
