"""FIRM on two real nodes: what cannot be in time is dropped where that is known, and counted once.

s -> a (window) ---- b (filter, twice the work that it can do)
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nodes.running import Up, nodes_text

pytestmark = pytest.mark.timeout(600)
APP = """CREATE STREAM s (id BIGINT, v DOUBLE) FROM synthetic
  (rate = 100, arrivals = 'constant', duration = '12 s', id = 'sequence', v = 'uniform(0, 1)');
CREATE QUERY q DEADLINE 1500 MILLISECONDS FIRM COST 20000 MICROSECONDS AS
  SELECT id, v FROM s [RANGE 1 SECONDS] WHERE v >= 0;
"""
PLACES = """[streams.s]
born = "a"
[results]
default = "b"
[operators."q.window"]
nodes = ["a"]
[operators."q.filter"]
nodes = ["b"]
"""


def test_an_overloaded_last_node_drops_what_is_too_late(tmp_path: Path) -> None:
    app = tmp_path / "app.cql"
    app.write_text(APP, encoding="utf-8")
    (tmp_path / "nodes.toml").write_text(nodes_text("ab", PLACES), encoding="utf-8")
    with Up(app, "--output", str(tmp_path / "out"), "--report", str(tmp_path / "report.json")) as up:
        assert up.end() == 0, up.said
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    q = report["queries"]["q"]
    ids = [line.partition(",")[0] for line in (tmp_path / "out/q.csv").read_text().splitlines()[1:]]
    assert q["in"] == 1200, "each tuple counts once: those on time, the late ones and the dropped ones"
    assert len(ids) == len(set(ids)) == q["out"] == q["in"] - q["shed"]
    assert q["shed"] > 200, "there was twice as much work as time"
    assert q["missed"] < q["shed"], "most that are too late are not worked on"
    assert q["sdmr"] == pytest.approx((q["missed"] + q["shed"]) / 1200)
