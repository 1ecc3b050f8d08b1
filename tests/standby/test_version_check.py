"""Two replicas compare their software: the one that starts later is refused, with what to do."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from standby.kernel_nodes import KernelRun
from standby_nodes.pairs import SELECTION, Pair

from kigen.cli.nodes.placing import NodesArguments, placed_parts
from kigen.engine.nodes.node_options import NodeOptions
from kigen.engine.nodes.node_run import NodeRun
from kigen.engine.nodes.version_check import OtherSoftware, require_same, require_same_software_there
from kigen.links import LinkServer
from kigen.links.flight.software import software


def test_the_same_software_may_meet() -> None:
    require_same("there", dict(software()))
    with LinkServer() as server:
        require_same_software_there(str(server.address), server.security)
    require_same_software_there("127.0.0.1:9", server.security, call_s=0.2)  # nobody is there: nothing to compare


@pytest.mark.parametrize("theirs", [{"kigen": "0.0.1", "duckdb": "2.0.0"}, {**software(), "duckdb": "1.0"}, None, {}])
def test_other_software_is_refused(theirs: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kigen.links.flight.service.software", lambda: theirs)
    with LinkServer() as server, pytest.raises(OtherSoftware, match="Install the same versions"):
        require_same_software_there(str(server.address), server.security)


@pytest.mark.parametrize("standby", ['standby = "active"'])
def test_a_node_that_meets_another_version_does_not_begin(
    standby: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kigen.engine.nodes.node_run.Run", KernelRun)
    monkeypatch.setattr(KernelRun, "rng", Random(1))
    pair = Pair(tmp_path, SELECTION, standby, 20)
    nodes, _, parts = placed_parts(
        NodesArguments(pair.app, pair.app.with_name("nodes.toml"), "deadline", 10, None, pair.state, None, "pack", None)
    )
    first = NodeRun(parts, "mid", nodes, NodeOptions(pair.state), 0)
    try:
        first.begin(None, lambda: None)  # alone: nobody to compare with
        second = NodeRun(parts, "mid", nodes, NodeOptions(pair.state), 1)
        try:
            monkeypatch.setattr("kigen.engine.nodes.version_check.software", lambda: {"kigen": "9.9", "duckdb": "9.9"})
            with pytest.raises(OtherSoftware, match=r"this one runs kigen 9\.9, duckdb 9\.9"):
                second.begin(None, lambda: None)
        finally:
            second.stop()
    finally:
        first.stop()
