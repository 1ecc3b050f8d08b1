"""A node's files follow one version of a placed app: older ones are adopted, others refused. Needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kigen.durable import PROCESS
from kigen.engine.checkpoint.app_record import first_record, write_record
from kigen.engine.checkpoint.fingerprint import fingerprint
from kigen.engine.nodes.adoption import CHECKPOINT, FILE, Adoption, Version, forget_node
from kigen.engine.nodes.node_queues import QUEUES, open_queue
from kigen.placement.changes.layers import without_queries
from kigen.placement.cutting import NodePart, cut
from kigen.placement.from_plan import from_plan
from kigen.placement.network import Network, route_all
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.solver.assemble import assemble
from kigen.placement.solver.split import by_work
from kigen.placement.stored import PlacementMismatch
from kigen.plan.binder import bind

APP = """CREATE STREAM cars (id BIGINT, speed DOUBLE) FROM synthetic (rate = 200, id = 'sequence', speed = 'uniform(0, 100)');
CREATE QUERY fast AS SELECT id FROM cars [RANGE 2 SECONDS] WHERE speed > 50;
CREATE QUERY slow AS SELECT id FROM cars [RANGE 3 SECONDS] WHERE speed < 50;
"""
NODES = '[nodes.a]\n[nodes.b]\n[streams.cars]\nborn = "a"\nrate = 200\n[results]\ndefault = "b"\n'


def parts() -> dict[str, NodePart]:
    """Returns the parts of an app whose filters run on a."""
    app, nodes = bind(APP), parse_nodes(NODES)
    planned = from_plan(app, nodes)
    where = {o.name: "a" for o in planned.problem.operators}
    routes = route_all(Network(planned.problem), where)
    placed = assemble(planned.problem, where, routes, by_work(planned.problem), 0.0, "given")
    return cut(app, nodes, planned, placed)


def begun(folder: Path, part: NodePart, follows: Version) -> list[str]:
    """Writes the files of a node that has begun. Returns the names of its queues."""
    Adoption.of(folder, follows, part, PROCESS)
    (folder / CHECKPOINT).mkdir()
    write_record(folder / CHECKPOINT, first_record(part.app, fingerprint(part.app, "dt", False, None, "1", [])))
    for name, sent in part.plans.items():
        open_queue(sent, name, folder, PROCESS).close()
    return sorted(part.plans)


@pytest.mark.parametrize("node", ["a", "b"])
def test_queues_of_the_old_app_stay_until_its_batch_is_finished(tmp_path: Path, node: str) -> None:
    before, folder = parts(), tmp_path / node
    names = begun(folder, before[node], Version("app", 0))
    assert names == ["fast.project", "slow.project"]
    part = without_queries(before, {"slow"})[node]
    for _ in range(2):  # killed before it was done
        found = Adoption.of(folder, Version("app", 1), part, PROCESS)
        assert (found.is_due, list(found.former)) == (True, ["slow.project"])
        assert [q.name for q in found.former_sent] == (["slow.project"] if node == "a" else [])
        for queue in found.former.values():
            queue.close()
    found = Adoption.of(folder, Version("app", 1), part, PROCESS)
    found.done(part.plans, PROCESS)
    assert [path.name for path in (folder / QUEUES).iterdir()] == ["fast.project"]
    assert json.loads((folder / FILE).read_bytes()) == {"began_as": "app", "change": 1}
    assert not Adoption.of(folder, Version("app", 1), part, PROCESS).is_due


def test_a_node_that_only_hands_on_has_no_state(tmp_path: Path) -> None:
    before, folder = parts(), tmp_path / "a"
    begun(folder, before["a"], Version("app", 0))
    part = without_queries(before, {"slow", "fast"})["a"]
    found = Adoption.of(folder, Version("app", 3), part, PROCESS)
    assert (found.former, (folder / CHECKPOINT).exists()) == ({}, False)
    found.done(part.plans, PROCESS)
    assert list((folder / QUEUES).iterdir()) == []


@pytest.mark.parametrize("follows", [Version("other", 1), Version("app", 0)])
def test_files_of_another_placement_are_refused(tmp_path: Path, follows: Version) -> None:
    part = parts()["a"]
    begun(tmp_path / "a", part, Version("app", 1))
    with pytest.raises(PlacementMismatch, match="another placement, or to a later version"):
        Adoption.of(tmp_path / "a", follows, part, PROCESS)


def test_files_without_a_version_are_those_of_the_first(tmp_path: Path) -> None:
    """Older versions of Kigen did not write it, and a power cut may tear it."""
    part, folder = parts()["a"], tmp_path / "a"
    begun(folder, part, Version("app", 0))
    (folder / FILE).unlink()
    assert not Adoption.of(folder, Version("app", 0), part, PROCESS).is_due
    (folder / FILE).write_text('{"began', encoding="utf-8")
    found = Adoption.of(folder, Version("app", 1), part, PROCESS)
    assert found.is_due
    forget_node(folder)
    assert list(folder.iterdir()) == []
    assert not Adoption.of(folder, Version("app", 5), part, PROCESS).is_due, "a new folder follows the newest"
