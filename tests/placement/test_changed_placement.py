"""A changed app on nodes: what stays keeps its parts, what is new gets parts beside them, and together they give the
lines of the whole."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from random import Random

import pytest
from oracle.compare import line_difference
from oracle.drive import run_kernel
from oracle.generate import generate
from oracle.over_nodes import NODES, Nodes
from oracle.render_cql import app_text
from oracle.ticking import generate_ticking

from kigen.engine.nodes.app_change import NodesApp, changed, first_placed
from kigen.placement.changes.layers import PlacedLayer, merged, without_queries
from kigen.placement.changes.placed_app import PlacedApp
from kigen.placement.cutting import NodePart, cut, empty_parts
from kigen.placement.from_plan import Layer, from_plan
from kigen.placement.network import Network, route_all
from kigen.placement.nodes_file.entries import NodesFileError
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.problem import Problem
from kigen.placement.result import Placement
from kigen.placement.solver.assemble import assemble
from kigen.placement.solver.solve import Limits, solve
from kigen.placement.solver.split import by_work
from kigen.placement.stored import PlacementMismatch
from kigen.plan.binder import bind
from kigen.plan.changes.digests import digests_of


def roundtrip(layers: list[PlacedLayer], placed: Placement, empty: dict[str, NodePart]) -> PlacedApp:
    stored = PlacedApp("of", "of", 1, {}, "site", {}, placed, tuple(layers))
    read = PlacedApp.from_json(json.loads(json.dumps(stored.to_json())), empty, "placement.json")
    assert read is not None
    assert read.parts(empty) == stored.parts(empty)
    return read


@pytest.mark.parametrize("draw", [generate, generate_ticking])
@pytest.mark.parametrize("seed", range(15))
def test_lines_of_layers_are_those_of_the_whole(seed: int, draw: object) -> None:
    """A random app: some queries are placed first, some of these are dropped, others are placed beside the rest."""
    app = draw(seed)  # type: ignore[operator]
    plan, rng = bind(app_text(app)), Random(f"{seed} in layers")
    names = [q.name for q in plan.queries]
    added = set(rng.sample(names, rng.randint(0, len(names) - 1)))
    kept = [name for name in names if name not in added]
    dropped = set(rng.sample(kept, rng.randint(0, max(0, len(kept) - 1))))
    lines = [f"[nodes.{name}]\n" for name in NODES]
    if rng.random() < 0.5:
        lines += ['[[links]]\nbetween = ["a", "b"]\n', '[[links]]\nbetween = ["b", "c"]\n']
    lines += [f'[streams.{s.name}]\nborn = "{rng.choice(NODES)}"\nrate = 100\n' for s in app.streams]
    lines += ["[results]\n", *(f'{q.name} = "{rng.choice(NODES)}"\n' for q in app.queries)]
    file = parse_nodes("".join(lines))

    def assembled(problem: Problem) -> Placement:
        where = {o.name: o.nodes[0] if o.nodes else rng.choice(NODES) for o in problem.operators}
        return assemble(problem, where, route_all(Network(problem), where), by_work(problem), 0.0, "random")

    first = replace(plan, queries=tuple(q for q in plan.queries if q.name in kept))
    planned = from_plan(plan, file, None, (Layer(first.queries),))
    placed = assembled(planned.problem)
    digests = digests_of(planned.plan_nodes.values())
    hosts = {digests[node]: placed.nodes[name] for name, node in planned.plan_nodes.items()}
    layers = [PlacedLayer(0, cut(first, file, planned, placed), hosts).without(dropped)]
    left = tuple(q for q in first.queries if q.name not in dropped)
    if added:
        new = replace(plan, queries=tuple(q for q in plan.queries if q.name in added))
        running = {n: hosts[digests[n]] for q in left for n in q.root.walk() if n in digests}
        planned = from_plan(plan, file, None, (Layer(left, "", running), Layer(new.queries, "-1")))
        placed = assembled(planned.problem)
        layers.append(PlacedLayer(1, cut(new, file, planned, placed), {}))
    parts = roundtrip(layers, placed, empty_parts(plan, file)).parts(empty_parts(plan, file))
    if added:
        assert all("-1" in name for part in layers[-1].parts.values() for name in part.plans)
    over = Nodes(app, parts, rng, halting=False)
    over.run()
    whole = run_kernel(app, plan, "dt", Random(f"{seed} whole"), "whole")
    for name in names:
        if name in dropped:
            assert not over.outputs[name]
        else:
            assert not (apart := line_difference(whole[name], over.outputs[name])), f"{name}: {apart}"


APP = """CREATE STREAM cars (id BIGINT, speed DOUBLE) FROM synthetic (rate = 200, id = 'sequence', speed = 'uniform(0, 100)');
CREATE STREAM lights (id BIGINT, green DOUBLE) FROM synthetic (rate = 20, id = 'sequence', green = 'uniform(0, 1)');
CREATE QUERY mean AS SELECT id, AVG(speed) AS m FROM cars [RANGE 2 SECONDS] WHERE speed > 50 GROUP BY id;
CREATE QUERY both AS SELECT c.id, l.green FROM cars [RANGE 2 SECONDS] AS c JOIN lights [ROWS 9] AS l ON c.id = l.id;
"""
MORE = "CREATE QUERY fastest AS SELECT id, MAX(speed) AS m FROM cars [RANGE 2 SECONDS] WHERE speed > 50 GROUP BY id;\n"
SITE = """[nodes.a]
[nodes.b]
[nodes.c]
[streams.cars]
born = "a"
rate = 200
[streams.lights]
born = "b"
rate = 20
"""
RESULTS = '[results]\ndefault = "c"\n'
PINNED = '[operators."mean.filter"]\nnodes = ["b"]\n[operators."mean.aggregate"]\nnodes = ["c"]\n'


def on(app: str, nodes: str = SITE + RESULTS) -> NodesApp:
    return NodesApp(bind(app), parse_nodes(nodes), None, "deadline")


def solved(problem: Problem) -> Placement:
    return solve(problem, time.monotonic, "deadline", Limits(2.0))


def begun(app: str = APP, nodes: str = SITE + RESULTS) -> PlacedApp:
    given = on(app, nodes)
    planned = from_plan(given.app, given.nodes)
    return first_placed(given, planned, solved(planned.problem))


def test_an_added_query_leaves_the_others_where_they_are() -> None:
    before, given = begun(nodes=SITE + RESULTS + PINNED), on(APP + MORE, SITE + RESULTS + PINNED)
    after, found = changed(before, given, solved, "placement.json")
    assert (found.kept, found.added, found.dropped) == (("mean", "both"), ("fastest",), ())
    assert after.layers[0].parts == before.layers[0].parts
    assert {
        name: host for name, host in after.placed.nodes.items() if name in before.placed.nodes
    } == before.placed.nodes
    sent = {name for part in after.layers[1].parts.values() for name in part.plans}
    assert sent, "cars travel from a to c"
    assert all(name.endswith("-1") for name in sent), "also what mean computes already"
    again, found = changed(after, on(APP, SITE + RESULTS + PINNED), solved, "placement.json")
    assert found.dropped == ("fastest",)
    assert again.parts(given.empty) == before.parts(given.empty)
    assert (again.change, again.began_as) == (2, before.began_as)


def test_what_a_dropped_query_alone_needed_goes() -> None:
    before = begun(nodes=SITE + RESULTS + PINNED)
    parts = before.parts(on(APP).empty)
    assert "mean.filter" in parts["b"].made
    left = without_queries(parts, {"mean"})
    assert [name for part in left.values() for name in part.plans if name.startswith("mean")] == []
    assert [q.name for q in left["c"].app.queries if not q.sent] == ["both"]
    assert without_queries(parts, {"mean", "both"}) == merged([], on(APP).empty)


def test_a_changed_query_is_placed_anew() -> None:
    given = on(APP.replace("speed > 50", "speed > 60"))
    after, found = changed(begun(), given, solved, "placement.json")
    assert (found.kept, found.added, found.dropped) == (("both",), ("mean",), ("mean",))
    assert [(layer.change, sorted(layer.results)) for layer in after.layers] == [(0, ["both"]), (1, ["mean"])]


@pytest.mark.parametrize(
    ("app", "nodes", "message"),
    [
        (APP, SITE + RESULTS + PINNED, "other nodes, costs or rates"),
        (APP + MORE, SITE.replace("[nodes.c]", "[nodes.c]\nspeed = 2.0") + RESULTS, "other nodes, costs or rates"),
        (APP + MORE, SITE + RESULTS + 'mean = "b"\n', "it keeps its state on c, so it cannot move to b"),
        (APP.replace("> 50", "> 60"), SITE + RESULTS + 'mean = "b"\n', "it has its output on c"),
        (APP + MORE, SITE.replace('born = "a"', 'born = "b"') + RESULTS, "queries that go on read it from a"),
        (APP + MORE, SITE + RESULTS + '[operators."both.join"]\nnodes = ["HERE"]\n', "cannot move to"),
    ],
    ids=["pins only", "faster node", "results", "results of a changed query", "born", "pinned elsewhere"],
)
def test_what_cannot_change(app: str, nodes: str, message: str) -> None:
    before = begun()
    other = next(n for n in "abc" if n != before.placed.nodes["both.join"])
    with pytest.raises((PlacementMismatch, NodesFileError), match=message):
        changed(before, on(app, nodes.replace("HERE", other)), solved, "placement.json")


STANDBY = (SITE.replace("[nodes.b]", '[nodes.b]\nstandby = "lazy"\nbatch = 10') + RESULTS + PINNED).replace(
    '[streams.lights]\nborn = "b"', '[streams.lights]\nborn = "a"'
)


def test_a_node_with_a_standby_keeps_its_part() -> None:
    elsewhere = '[operators."both.join"]\nnodes = ["c"]\n[operators."both.project"]\nnodes = ["c"]\n'
    before = begun(nodes=STANDBY + elsewhere)
    assert before.parts(on(APP).empty)["b"].made
    without_both = on(APP.partition("CREATE QUERY both")[0], STANDBY)
    after, found = changed(before, without_both, solved, "placement.json")
    assert found.dropped == ("both",)
    assert after.parts(without_both.empty)["b"] == before.parts(without_both.empty)["b"]
    with pytest.raises(NodesFileError, match="a node with a standby cannot change its app"):
        changed(before, on(APP.replace("> 50", "> 60"), STANDBY + elsewhere), solved, "placement.json")
