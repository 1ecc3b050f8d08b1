"""`kigen bench nodes`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    stretch: Annotated[
        float | None, typer.Option(help="Factor for the paper's times.", min=1, show_default="10")
    ] = None,
    activations: Annotated[
        int | None, typer.Option(help="How often all tuples arrive.", min=1, show_default="12, quick 4")
    ] = None,
    tuples: Annotated[
        int | None, typer.Option(help="V2V tuples per activation, on average.", min=1, show_default="12")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the number of tuples per activation.")] = None,
    edf: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Policy that stands for EDF.", show_default="pack:overload=edf")
    ] = None,
) -> Measurement:
    """Run the placement paper's experiment on two node processes: two allocations with EDF and FIFO, and what is late
    of outputs 1 and 2."""
    from kigen.schedule import read_policy
    from kigen_lab.bench.nodes.app import QUICK, NodesSettings
    from kigen_lab.bench.nodes.benchmark import NodesBench
    from kigen_lab.bench.nodes.report import draw_nodes, nodes_tables

    given: dict[str, Any] = {
        "stretch": stretch,
        "activations": activations,
        "v2v_tuples": tuples,
        "seed": seed,
        "edf": edf,
    }
    settings = replace(
        QUICK if quick else NodesSettings(), out=out, **{k: v for k, v in given.items() if v is not None}
    )
    read_policy(settings.edf)
    bench = NodesBench(settings, say)
    return Measurement(bench.steps, bench.run, nodes_tables, draw_nodes)


NODES = Benchmark("nodes", "kigen bench nodes --quick --json nodes.json", _prepare)
