"""Tests the nodes file: its values, its errors, an app placed on it, and `kigen explain --nodes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kigen.cli.main import app as command
from kigen.placement.from_plan import from_plan, name_operators
from kigen.placement.nodes_file.entries import FIRST_PORT, NodesFileError
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.problem import ProblemLink
from kigen.placement.profile import ProfileError, read_profile
from kigen.plan import bind

GOOD = """
period = "50 ms"
[nodes.car]
speed = 0.5
address = "127.0.0.1:9001"
standby = "lazy"
batch = 10
compress = "zlib"
recovery = "precise"
silence = "2 s"
[nodes.road]
[[links]]
between = ["car", "road"]
delay = "2 ms"
bandwidth = "8 Mbit/s"
[streams.readings]
born = "car"
rate = 400
bytes = 20
[results]
default = "road"
[operators."hot.filter"]
nodes = ["car"]
cost_us = 7
selectivity = 0.1
"""
APP = """
CREATE STREAM readings (room STRING, temp DOUBLE) FROM synthetic (rate = 100);
CREATE QUERY hot DEADLINE 2 SECONDS AS SELECT room, temp FROM readings [RANGE 10 SECONDS] WHERE temp > 30;
CREATE QUERY mean AS SELECT room, AVG(temp) AS t FROM readings [RANGE 10 SECONDS] GROUP BY room;
"""


def test_what_it_gives() -> None:
    nodes = parse_nodes(GOOD)
    car, road = nodes.nodes
    assert (car.speed, car.host, car.port, car.standby, car.batch, car.compress) == (
        0.5,
        "127.0.0.1",
        9001,
        "lazy",
        10,
        "zlib",
    )
    assert (car.addresses, car.rows_at_once, car.silence_us) == (("127.0.0.1:9001", "127.0.0.1:9501"), 10, 2e6)
    assert road.addresses == (f"127.0.0.1:{FIRST_PORT + 1}",)
    assert (road.speed, road.host, road.port) == (1.0, "127.0.0.1", FIRST_PORT + 1)
    assert nodes.links == (ProblemLink("car", "road", 2000.0, 1e6), ProblemLink("road", "car", 2000.0, 1e6))
    assert nodes.period_us == 50_000


def test_without_links_every_node_reaches_every_other() -> None:
    assert {(l.source, l.target) for l in parse_nodes("[nodes.a]\n[nodes.b]").links} == {("a", "b"), ("b", "a")}


WRONG = {
    "[nodes.a": "not TOML",
    "": "no nodes: write at least one",
    "[nodes.a]\nspeed = 0": "[nodes.a] speed = 0: must be above 0",
    "[nodes.a]\nspeed = 'fast'": "[nodes.a] speed = 'fast': write a number",
    "[nodes.a]\nsped = 1": "[nodes.a] sped: not known here; did you mean speed?",
    "[nodes.a]\naddress = 'here'": "write host and port, such as '127.0.0.1:47100'",
    "[nodes.a]\naddress = '127.0.0.1:5'\n[nodes.b]\naddress = '127.0.0.1:5'": "nodes a and b have the same address "
    "127.0.0.1:5",
    "[nodes.a]\nstandby = 'b'": "[nodes.a] standby = 'b': write one of lazy, active, upstream",
    "[nodes.a]\nstandby = 'lazy'\nbatch = 'auto'": "say by what, with recovery_within = '2 s' or overhead_below = "
    "'30 %'",
    "[nodes.a]\noverhead_below = 30": "write it as '30 %'",
    "[nodes.a]\nstandby = 'lazy'\nstandby_address = '127.0.0.1:47100'": "nodes a and a (standby) have the same address",
    "[nodes.a]\nrecovery = 'fast'": "write recovery = 'precise', or leave it out",
    "[nodes.a]\nstandby = 'lazy'\nrecovery = 'rollback'": "[nodes.a] recovery = 'rollback': Kigen recovers precisely",
    "[nodes.a]\nstandby = 'active'\nrecovery = 'gap'": "so no result is lost and none comes twice; write recovery = "
    "'precise', or leave it out",
    "[nodes.a]\nbatch = 1.5": "write a whole number",
    "[nodes.a]\ncompress = 'yes'": "write one of none, zlib, zstd, lz4",
    "[nodes.a]\n[[links]]\nbetween = ['a']": 'write between = ["a", "b"] for both ways',
    "[nodes.a]\n[nodes.b]\n[[links]]\nbetween = ['a', 'c']": "there is no node 'c'",
    "[nodes.a]\n[nodes.b]\n[[links]]\nbetween = ['a', 'b']\ndelay = 5": "write a time with its unit (us, ms, s, "
    "min), such as '20 ms'",
    "[nodes.a]\n[nodes.b]\n[[links]]\nbetween = ['a', 'b']\nbandwidth = '5'": "write it as '10 MB/s' or '100 Mbit/s'",
    "[nodes.a]\n[streams.s]\nrate = 5": '[streams.s]: say where it is born, such as born = "a"',
    "[nodes.car]\n[results]\nq = 'cat'": "[results] q: there is no node 'cat'; did you mean car?",
    "[nodes.'edge.a']": "[nodes] 'edge.a': names of nodes consist of letters, digits, - and _",
    "[nodes.'../a']": "[nodes] '../a': names of nodes consist of letters, digits, - and _",
    "node = 1": "node: not known here; did you mean nodes?",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda t: t[-40:].replace("\n", " "))
def test_what_is_wrong_is_said(text: str) -> None:
    with pytest.raises(NodesFileError) as caught:
        parse_nodes(text, "n.toml")
    assert WRONG[text] in str(caught.value)
    assert str(caught.value).startswith("n.toml: ")


def test_all_errors_are_said_at_once() -> None:
    with pytest.raises(NodesFileError) as caught:
        parse_nodes("[nodes.a]\nspeed = -1\nbatch = -1\n[streams.s]\nborn = 'b'")
    assert len(caught.value.errors) == 3


def test_an_app_on_nodes() -> None:
    app = bind(APP)
    assert list(name_operators(app).values()) == ["hot.window", "hot.filter", "mean.aggregate", "mean.project"]
    planned = from_plan(app, parse_nodes(GOOD))
    problem = planned.problem
    assert problem.tuples["readings"] == pytest.approx(20)
    assert problem.allowed["hot.filter"] == ("car",)
    assert problem.work_us["hot.filter"] == pytest.approx(7 * 20)
    assert problem.tuples["hot.filter >"] == pytest.approx(2)
    assert {o.name: (o.sink, o.deadline_us) for o in problem.outputs} == {"hot": ("road", 2e6), "mean": ("road", 60e6)}
    assert "3 of 4 operators have no measured cost" in planned.warnings[0]


def test_a_profile_gives_costs() -> None:
    report = {
        "wall_s": 10.0,
        "queries": {"hot": {"in": 1000, "out": 100}},
        "costs": {"tasks": {"task0": {"tuple_us": 60.0}}},
    }
    planned = from_plan(bind(APP), parse_nodes(GOOD), read_profile(report))
    costs = {o.name: o.cost_us for o in planned.problem.operators}
    assert costs["hot.filter"] == 7  # given, so not measured
    assert costs["hot.window"] == pytest.approx(10)
    assert costs["mean.aggregate"] == pytest.approx(30)
    assert not planned.warnings
    with pytest.raises(ProfileError, match="a report of 'kigen run --report' is required"):
        read_profile([])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("[streams.readings]", "[streams.reading]"),
            "[streams] reading: the app has no such stream; did you mean readings?",
        ),
        (('default = "road"', 'hott = "road"'), "[results] hott: the app has no such query; did you mean hot?"),
        (
            ('"hot.filter"', '"hot.filtre"'),
            "[operators] hot.filtre: the app has no such operator; did you mean hot.filter?",
        ),
        (
            ('default = "road"', 'hot = "road"'),
            'results of mean are wanted nowhere: write mean = "car" below [results]',
        ),
    ],
)
def test_names_that_the_app_does_not_have(change: tuple[str, str], said: str) -> None:
    with pytest.raises(NodesFileError) as caught:
        from_plan(bind(APP), parse_nodes(GOOD.replace(*change)))
    assert said in str(caught.value)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "app.cql").write_text(APP, encoding="utf-8")
    (tmp_path / "nodes.toml").write_text(GOOD, encoding="utf-8")
    return str(tmp_path / "app.cql"), str(tmp_path / "nodes.toml")


def test_explain_over_nodes(files: tuple[str, str], tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    shown = CliRunner().invoke(command, ["explain", files[0], "--nodes", files[1], "--picture", str(picture)])
    assert shown.exit_code == 0, shown.output
    assert "all deadlines hold" in shown.output
    assert "node car: speed 0.5" in shown.output
    assert "results wanted here: hot within 2 s, mean within 1 min" in shown.output
    assert picture.stat().st_size > 5_000
    told = json.loads(
        CliRunner().invoke(command, ["explain", files[0], "--nodes", files[1], "--format", "json"]).stdout
    )
    assert {o["name"]: o["node"] for o in told["operators"]}["hot.filter"] == "car"
    assert sum(o["sub_deadline_us"] for o in told["operators"] if o["name"].startswith("hot.")) <= 2e6
    mermaid = CliRunner().invoke(command, ["explain", files[0], "--nodes", files[1], "--format", "mermaid"]).stdout
    assert mermaid.startswith("flowchart LR")
    assert mermaid.count("subgraph") == mermaid.count("  end")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ('between = ["car", "road"]', 'from = "road"\nto = "car"'),
            "results of hot have no route to node road: add a link",
        ),
        (("speed = 0.5", "speed = -1"), "speed = -1: must be above 0"),
    ],
)
def test_explain_with_wrong_nodes_is_exit_2(files: tuple[str, str], change: tuple[str, str], said: str) -> None:
    Path(files[1]).write_text(GOOD.replace(*change), encoding="utf-8")
    shown = CliRunner().invoke(command, ["explain", files[0], "--nodes", files[1]])
    assert shown.exit_code == 2
    assert said in shown.output
    missing = CliRunner().invoke(command, ["explain", files[0], "--nodes", "no/such.toml"])
    assert missing.exit_code == 2


def test_durability_is_power_unless_said() -> None:
    text = '[nodes.a]\n[nodes.b]\ndurability = "process"\n'
    assert [node.durability for node in parse_nodes(text).nodes] == ["power", "process"]
    with pytest.raises(
        NodesFileError, match=r"\[nodes\.a\] durability: no durability 'always': write power .* or process"
    ):
        parse_nodes('[nodes.a]\ndurability = "always"\n')
