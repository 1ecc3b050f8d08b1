"""FIRM over several nodes: which parts may drop tuples, after how long, and how the whole counts them."""

from __future__ import annotations

import json
from pathlib import Path

from kigen.cli.nodes.up_command import merge_reports
from kigen.engine.nodes.node_options import replicated
from kigen.placement.cutting import NodePart, cut, parts_below
from kigen.placement.from_plan import from_plan
from kigen.placement.network import Network, route_all
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.solver.assemble import assemble
from kigen.placement.solver.split import by_work
from kigen.plan import bind
from kigen.plan.logical import Query

SECOND = 1_000_000
STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v DOUBLE) FROM synthetic (rate = 10, k = 'sequence', v = 'uniform(0, 1)');\n"
    for name in ("s", "t")
)
MEANS = "SELECT k, AVG(v) AS mean FROM s [RANGE 5 SECONDS] WHERE v > 0.5 GROUP BY k"
NODES = """[nodes.a]
[nodes.b]
[nodes.c]
[[links]]
between = ["a", "b"]
delay = "20 ms"
[[links]]
between = ["b", "c"]
delay = "30 ms"
[streams.s]
born = "a"
[streams.t]
born = "a"
[results]
default = "c"
"""


def parts_of(queries: str, **places: str) -> dict[str, NodePart]:
    """Places operators by the end of their names, all others on c."""
    app, nodes = bind(STREAMS + queries), parse_nodes(NODES)
    planned = from_plan(app, nodes)
    problem = planned.problem
    where = {o.name: next((n for end, n in places.items() if o.name.endswith(end)), "c") for o in problem.operators}
    placed = assemble(problem, where, route_all(Network(problem), where), by_work(problem), 0.0, "by hand")
    return cut(app, nodes, planned, placed)


def sent(parts: dict[str, NodePart], node: str) -> Query:
    (query,) = [q for q in parts[node].app.queries if q.sent]
    return query


def test_every_node_of_the_way_drops_what_cannot_be_in_time_at_the_end() -> None:
    parts = parts_of(f"CREATE QUERY q DEADLINE 2 SECONDS FIRM AS {MEANS};", window="a", filter="a", aggregate="b")
    first, second = sent(parts, "a"), sent(parts, "b")
    assert (first.firm, first.drop_us) == (True, 2 * SECOND - 50_000), "two links are ahead"
    assert (second.firm, second.drop_us) == (True, 2 * SECOND - 30_000)
    assert first.deadline_us is not None
    assert second.deadline_us is not None
    assert first.deadline_us < second.deadline_us <= second.drop_us
    (last,) = parts["c"].app.queries
    assert (last.firm, last.deadline_us, last.drop_us) == (True, 2 * SECOND, None)


def test_what_a_soft_query_needs_too_is_not_dropped_before_the_ways_part() -> None:
    queries = f"CREATE QUERY q DEADLINE 2 SECONDS FIRM AS {MEANS}; CREATE QUERY r DEADLINE 9 SECONDS AS {MEANS};"
    parts = parts_of(queries, window="a", filter="a", aggregate="a")
    assert not sent(parts, "a").firm
    assert {q.name: q.firm for q in parts["c"].app.queries} == {"q": True, "r": False}


def test_of_several_firm_queries_the_last_deadline_decides() -> None:
    queries = f"CREATE QUERY q DEADLINE 2 SECONDS FIRM AS {MEANS}; CREATE QUERY r DEADLINE 9 SECONDS FIRM AS {MEANS};"
    parts = parts_of(queries, window="a", filter="a", aggregate="a")
    assert sent(parts, "a").drop_us == 9 * SECOND - 50_000


def test_a_stream_that_is_only_handed_on_is_dropped_too() -> None:
    parts = parts_of(f"CREATE QUERY q DEADLINE 2 SECONDS FIRM AS {MEANS};")
    assert (sent(parts, "a").firm, sent(parts, "a").deadline_us) == (True, 2 * SECOND - 50_000)


def test_replicas_drop_nothing() -> None:
    parts = parts_of(f"CREATE QUERY q DEADLINE 2 SECONDS FIRM AS {MEANS};", window="a", filter="a", aggregate="b")
    (query,) = replicated(parts["b"]).queries
    assert (query.firm, query.drop_us) == (False, None)


def test_the_whole_counts_a_dropped_tuple_once(tmp_path: Path) -> None:
    """a makes two streams of s, and drops in both what is too late; b drops other tuples."""
    join = "SELECT x.k FROM s [RANGE 5 SECONDS] AS x, s [ROWS 5] AS y WHERE x.k = y.k"
    parts = parts_of(f"CREATE QUERY q DEADLINE 2 SECONDS FIRM AS {join};", window="a", window2="a", join="b")
    names = [q.name for q in parts["a"].app.queries]
    assert len(names) == 2
    for node, counts in {"a": dict(zip(names, (30, 28), strict=True)), "b": {sent(parts, "b").name: 7}}.items():
        queries = {name: {"in": 100, "missed": 9, "shed": count, "dropped": 0} for name, count in counts.items()}
        report(tmp_path, node, queries)
    report(tmp_path, "c", {"q": {"in": 60, "missed": 1, "shed": 2, "dropped": 0, "sdmr": 0.05}})
    merged = merge_reports(tmp_path, {"q": "c"}, parts_below(parts))
    q = merged["queries"]["q"]
    assert (q["shed"], q["in"], q["missed"], q["node"]) == (2 + 30 + 7, 60 + 37, 1, "c")
    assert q["sdmr"] == 40 / 97
    assert merged["batches"] == 5, "of the node that gives results"


def report(state: Path, node: str, queries: dict[str, dict[str, object]]) -> None:
    (state / node).mkdir()
    whole = {"policy": "pack", "lifetime": "dt", "wall_s": 1.0, "batch_ms": {}, "batches": 5, "finished": True}
    (state / node / "report.json").write_text(json.dumps({**whole, "queries": queries}), encoding="utf-8")
