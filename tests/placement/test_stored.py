"""A stored placement is read back unchanged; one of another app, nodes file or allocation is refused."""

from __future__ import annotations

import json
import time
from functools import cache

import pytest

from kigen.placement.from_plan import from_plan
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.result import Placement
from kigen.placement.solver.solve import Limits, solve
from kigen.placement.stored import PlacementMismatch, fingerprint, from_json, to_json
from kigen.plan.binder import bind

APP = """CREATE STREAM cars (id BIGINT, speed DOUBLE) FROM synthetic (rate = 200, id = 'sequence', speed = 'uniform(0, 100)');
CREATE STREAM lights (id BIGINT, green DOUBLE) FROM synthetic (rate = 20, id = 'sequence', green = 'uniform(0, 1)');
CREATE QUERY mean DEADLINE 5 SECONDS AS SELECT id, AVG(speed) AS m FROM cars [RANGE 2 SECONDS] WHERE speed > 50 GROUP BY id;
CREATE QUERY both DEADLINE 8 SECONDS AS SELECT c.id, c.speed, l.green
  FROM cars [RANGE 2 SECONDS] AS c JOIN lights [ROWS 9] AS l ON c.id = l.id;
"""
NODES = """[nodes.road]
speed = 0.5
[nodes.edge]
[nodes.centre]
speed = 2.0
[[links]]
between = ["road", "edge"]
delay = "3 ms"
[[links]]
between = ["edge", "centre"]
bandwidth = "1 MB/s"
[streams.cars]
born = "road"
[streams.lights]
born = "edge"
[results]
default = "centre"
"""


@cache
def placement(allocate: str) -> Placement:
    return solve(from_plan(bind(APP), parse_nodes(NODES)).problem, time.monotonic, allocate, Limits(5.0))


def of(app: str = APP, nodes: str = NODES, allocate: str = "deadline") -> str:
    bound, file = bind(app), parse_nodes(nodes)
    return fingerprint(bound, from_plan(bound, file), file, allocate)


def test_the_fingerprint_is_that_of_earlier_versions() -> None:
    """Renaming a class must not make stored placements, and the state of their nodes, unusable."""
    assert of() == "ac6eba70dfa9d53acb7d82eedd6aadf9"


@pytest.mark.parametrize("allocate", ["deadline", "sqpr"])
def test_round_trip(allocate: str) -> None:
    placed = placement(allocate)
    assert placed.routes
    text = json.dumps(to_json(placed, of(allocate=allocate)))
    assert from_json(json.loads(text), of(allocate=allocate), "placement.json") == placed


@pytest.mark.parametrize(
    "changed",
    [
        {"app": APP.replace("speed > 50", "speed > 60")},
        {"app": APP.replace("RANGE 2 SECONDS] WHERE", "RANGE 3 SECONDS] WHERE")},
        {"app": APP.replace("DEADLINE 8", "DEADLINE 9")},
        {"app": APP.replace("'uniform(0, 1)'", "'uniform(0, 2)'")},
        {"nodes": NODES.replace("speed = 2.0", "speed = 2.5")},
        {"nodes": NODES.replace('default = "centre"', 'default = "edge"')},
        {"nodes": NODES + '[operators."mean.aggregate"]\nnodes = ["edge"]\n'},
        {"allocate": "sqpr"},
    ],
)
def test_of_something_else(changed: dict[str, str]) -> None:
    stored = to_json(placement("sqpr"), of())
    with pytest.raises(PlacementMismatch, match="another --state"):
        from_json(stored, of(**changed), "placement.json")


def test_addresses_may_change() -> None:
    assert of() == of(nodes=NODES.replace("[nodes.edge]", '[nodes.edge]\naddress = "127.0.0.1:5000"'))


@pytest.mark.parametrize("stored", [None, [], {}, {"format": 99, "of": "x", "placement": {}}])
def test_another_format(stored: object) -> None:
    with pytest.raises(PlacementMismatch, match="delete the file"):
        from_json(stored, "x", "placement.json")
