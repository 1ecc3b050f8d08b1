"""`kigen bench placement`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    nodes: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only this number of nodes (may be repeated).")
    ] = None,
    sharing: Annotated[
        list[float] | None, typer.Option(help="Only plans that share this much, 0 to 1 (may be repeated).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random plans.")] = 1,
    stretch: Annotated[
        float, typer.Option(help="Factor for limits of wall time on a busy machine; CPU time keeps its limit.", min=1)
    ] = 1.0,
) -> Measurement:
    """Measure the placement of random plans on 2 to 50 nodes: solve time and gap, and the heuristic beside the
    bound."""
    from kigen_lab.bench.placement.benchmark import (
        QUICK,
        SHARINGS,
        SIZES,
        PlacementSettings,
        draw_placement_bench,
        placement_table,
        run_placement_bench,
    )

    sizes = tuple(s for s in (QUICK if quick else SIZES) if nodes is None or s.nodes in nodes)
    settings = PlacementSettings(sizes, tuple(sharing or ((0.2,) if quick else SHARINGS)), seed, stretch=stretch)
    steps = len(settings.sizes) * len(settings.sharings)
    return Measurement(
        steps, lambda advance: run_placement_bench(settings, say, advance), placement_table, draw_placement_bench
    )


PLACEMENT = Benchmark("placement", "kigen bench placement --quick --json placement.json", _prepare)
