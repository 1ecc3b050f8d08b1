"""Which followers need every input, who reads under which name, and which batch `auto` chooses: without processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from standby_nodes.pairs import ALL, SELECTION, Pair
from standby_nodes.test_wrong_standbys import figures

from kigen.cli.loading import load
from kigen.cli.nodes.placing import NodesArguments, placed_parts
from kigen.engine.nodes.batch_advice import with_batches
from kigen.engine.nodes.standby_rules import kind_of, readers_of, skips_trimmed
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import STANDBY_PORT, NodeEntry, NodesFile, NodesFileError
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.replicas.standby_kind import NEVER_FULL, Acks, InputRequest


def parts_of(pair: Pair) -> tuple[NodesFile, dict[str, NodePart]]:
    assert load(pair.app).queries
    arguments = NodesArguments(
        pair.app, pair.app.with_name("nodes.toml"), "deadline", 10, None, pair.state, None, "pack", None
    )
    nodes, _, parts = placed_parts(arguments)
    return nodes, parts


ELSEWHERE = "CREATE QUERY all_cars AS SELECT id FROM cars [RANGE 2 SECONDS];\n"


@pytest.mark.parametrize(
    ("queries", "leaves_out"),
    [
        (SELECTION, True),
        (SELECTION.replace("RANGE 2 SECONDS", "NOW"), True),
        (SELECTION.replace("RANGE 2 SECONDS", "ROWS 5"), False),  # a death depends on the tuples before
        (SELECTION.replace("RANGE 2 SECONDS", "RANGE 2 SECONDS SLIDE 1 SECONDS"), False),
        ("CREATE QUERY n AS SELECT COUNT(*) AS n FROM cars [RANGE 2 SECONDS];", False),
        ("CREATE QUERY d AS SELECT DISTINCT road FROM cars [RANGE 2 SECONDS];", False),
        (ALL, False),
    ],
)
def test_a_standby_gets_every_input_unless_the_node_has_no_memory(
    queries: str, leaves_out: bool, tmp_path: Path
) -> None:
    nodes, parts = parts_of(Pair(tmp_path, queries, 'standby = "lazy"\nbatch = 30\ncompress = "zstd"', 30))
    assert skips_trimmed(parts, "mid", nodes) == leaves_out
    for stream in parts["mid"].received:
        readers, required = readers_of(parts["up"], stream, parts, nodes)
        assert readers == ["mid", "mid.1"]
        assert required == (["mid"] if leaves_out else ["mid", "mid.1"])
    kind = kind_of(parts, "mid", nodes)
    assert kind.request(leads=False) == InputRequest(30, "zstd")
    assert kind.request(leads=True) == InputRequest()
    assert (kind.skips_trimmed, kind.acks) == (leaves_out, Acks.DELIVERED if leaves_out else Acks.APPENDED)
    assert kind_of(parts, "down", nodes).request(leads=False) == InputRequest()


@pytest.mark.parametrize("queries", [SELECTION, ALL])
def test_with_copies_inputs_are_kept_for_both_until_a_copy_is_confirmed(queries: str, tmp_path: Path) -> None:
    nodes, parts = parts_of(Pair(tmp_path, queries, 'standby = "passive"\nrecovery = "precise"', 30))
    for stream in parts["mid"].received:
        assert readers_of(parts["up"], stream, parts, nodes) == (["mid", "mid.1"], ["mid", "mid.1"])
    kind = kind_of(parts, "mid", nodes)
    assert (kind.request(leads=True), kind.request(leads=False)) == (InputRequest(), None)
    assert (kind.skips_trimmed, kind.acks) == (False, Acks.COPIED)
    assert kind_of(parts, "down", nodes).acks is Acks.APPENDED


ROW = '[[links]]\nbetween = ["up", "mid"]\n[[links]]\nbetween = ["mid", "down"]\n'


@pytest.mark.parametrize("links", ["", ROW])
def test_another_reader_of_the_stream_needs_it_kept_at_its_own_pace(links: str, tmp_path: Path) -> None:
    """Then the acks of the pair do not decide alone what is trimmed, or rows are handed on that must keep their
    offsets."""
    pair = Pair(tmp_path, SELECTION + ELSEWHERE, 'standby = "lazy"', 30)
    nodes_file = pair.app.with_name("nodes.toml")
    text = nodes_file.read_text(encoding="utf-8")
    for operator, node in (("fast.window", "up"), ("all_cars.project", "down")):
        pinned = f'[operators."{operator}"]\nnodes = ["mid"]'
        assert pinned in text
        text = text.replace(pinned, pinned.replace("mid", node))
    nodes_file.write_text(text.replace("[streams.cars]", links + "[streams.cars]", 1), encoding="utf-8")
    nodes, parts = parts_of(pair)
    (stream,) = parts["mid"].used
    readers = {(node, name) for node, part in parts.items() for name in part.readers.get(stream, ())}
    assert readers in ({("up", "mid"), ("up", "down")}, {("up", "mid"), ("mid", "down")})
    assert not skips_trimmed(parts, "mid", nodes)


@pytest.mark.parametrize(
    ("before", "leaves_out"),
    [("", True), ('standby = "passive"', True), ('standby = "lazy"', False), ('standby = "upstream"', False)],
)
def test_behind_a_pair_that_leaves_inputs_out_a_pair_gets_all(before: str, leaves_out: bool, tmp_path: Path) -> None:
    """A replica of the first pair that has not seen inputs cannot say how many results the second pair made of them."""
    pair = Pair(tmp_path, "CREATE QUERY fast AS SELECT id FROM cars [RANGE 2 SECONDS] WHERE speed > 50;", "", 30)
    text = '[nodes.up]\n[nodes.mid]\n%s\n[nodes.late]\nstandby = "%s"\n[nodes.down]\n[streams.cars]\nborn = "up"\n'
    text += '[streams.alarms]\nborn = "up"\n'
    text += (
        '[results]\ndefault = "down"\n[operators."fast.project"]\nnodes = '
        '["late"]\n[operators."fast.filter"]\nnodes = ["mid"]\n'
    )
    text += '[operators."fast.window"]\nnodes = ["mid"]\n'
    nodes_file = pair.app.with_name("nodes.toml")
    nodes_file.write_text(text % (before, "lazy"), encoding="utf-8")
    nodes, parts = parts_of(pair)
    assert skips_trimmed(parts, "mid", nodes)
    assert skips_trimmed(parts, "late", nodes) == leaves_out
    nodes_file.write_text(text % (before, "upstream"), encoding="utf-8")
    if leaves_out:
        parts_of(pair)
    else:
        with pytest.raises(NodesFileError, match="the standby before it leaves tuples out itself"):
            parts_of(pair)


@pytest.mark.parametrize(
    ("standby", "batch"),
    [('standby = "active"', None), ('standby = "upstream"', NEVER_FULL), ('standby = "lazy"\nbatch = 7', 7)],
)
def test_active_and_upstream_are_batches_of_one_and_of_all(standby: str, batch: int | None, tmp_path: Path) -> None:
    nodes, parts = parts_of(Pair(tmp_path, SELECTION, standby, 30))
    assert kind_of(parts, "mid", nodes).request(leads=False) == InputRequest(batch)


@pytest.mark.parametrize(
    ("limit", "standby", "batch"),
    [
        ('recovery_within = "250 ms"', "lazy", 1),
        ('recovery_within = "1 s"', "lazy", 50),
        ('recovery_within = "2 s"', "upstream", None),
        ('overhead_below = "40 %"', "lazy", 50),
        ('overhead_below = "10 %"', "upstream", None),
        ('overhead_below = "10 %"\nrecovery_within = "250 ms"', "lazy", 1),
    ],
)
def test_the_batch_that_keeps_the_limit_and_costs_least(
    limit: str, standby: str, batch: int | None, tmp_path: Path
) -> None:
    figures(tmp_path / "standby.json")
    text = f'[nodes.mid]\nstandby = "lazy"\nbatch = "auto"\nfigures = "standby.json"\n{limit}\n[nodes.down]\n'
    nodes, notes = with_batches(parse_nodes(text, str(tmp_path / "nodes.toml")))
    assert (nodes.entry("mid").standby, nodes.entry("mid").batch) == (standby, batch)
    assert len(notes) == 1
    assert "recovery" in notes[0]


def test_spread_counts(tmp_path: Path) -> None:
    cells = [
        {"batch": 1, "compress": "none", "overhead": {"payload": 0.6}, "recovery_s": [0.3, 0.3]},
        {"batch": 50, "compress": "none", "overhead": {"payload": 0.3}, "recovery_s": [0.1, 0.7]},
        {
            "batch": None,
            "standby": "passive",
            "compress": "none",
            "overhead": {"payload": 0.1},
            "recovery_s": [0.1, 0.1],
        },
    ]
    (tmp_path / "f.json").write_text(json.dumps({"bench": "standby", "cells": cells}), encoding="utf-8")
    text = '[nodes.mid]\nstandby = "lazy"\nbatch = "auto"\nfigures = "f.json"\nrecovery_within = "1 s"\n'
    assert with_batches(parse_nodes(text, str(tmp_path / "nodes.toml")))[0].entry("mid").batch == 1


def test_the_nodes_files_of_the_page_are_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "standby.md").read_text(encoding="utf-8")
    first, second, third = re.findall(r"```toml\n(.*?)```", page, re.S)
    entry = parse_nodes(first).entry("mid")
    assert (entry.standby, entry.batch, entry.compress, entry.standby_port) == ("lazy", 25, "zlib", 47601)
    assert entry.port + STANDBY_PORT == entry.standby_port, "what is written there is what it would be anyway"
    assert parse_nodes(second).entry("mid").figures == "standby.json"
    copies = parse_nodes(third).entry("mid")
    assert (copies.standby, copies.period_us) == ("passive", NodeEntry("mid").period_us), "what it is if left out"
