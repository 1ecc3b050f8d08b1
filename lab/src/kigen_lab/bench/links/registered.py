"""`kigen bench links`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs per case; the median counts.", show_default="3")
    ] = None,
) -> Measurement:
    """Measure what a link between two processes carries with acknowledgements: in memory, in files, with fsync; and the
    latency of one block."""
    from kigen_lab.bench.links.benchmark import QUICK, LinksSettings, run_links_bench, turns
    from kigen_lab.bench.links.table import links_tables

    settings = replace(QUICK if quick else LinksSettings(), out=out)
    settings = settings if trials is None else replace(settings, trials=trials)
    return Measurement(turns(settings), lambda advance: run_links_bench(settings, say, advance), links_tables)


LINKS = Benchmark("links", "kigen bench links --quick --json links.json", _prepare)
