"""`kigen bench standby`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say


class StandbyQuery(StrEnum):
    SELECTION = "selection"
    WINDOW = "window"


class Codec(StrEnum):
    NONE = "none"
    ZLIB = "zlib"
    ZSTD = "zstd"
    LZ4 = "lz4"


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    trials: Annotated[
        int | None, typer.Option(metavar="N", help="Kills of the leader per cell.", min=1, show_default="5, quick 1")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Tuples per second.", min=1, show_default="25")] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only this batch (may be repeated); 0: one that is never full (UB).", min=0),
    ] = None,
    codec: Annotated[
        list[Codec] | None, typer.Option(help="Only this codec (may be repeated).", show_default="none, zlib, zstd")
    ] = None,
    query: Annotated[
        StandbyQuery | None,
        typer.Option(help="What the node runs: selection has no state, window has state.", show_default="selection"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the stream and of the moments of kills.")] = None,
    silence: Annotated[
        float | None, typer.Option(help="`silence` of the node, in seconds.", min=0.01, show_default="1")
    ] = None,
) -> Measurement:
    """Kill the leader of a node with a standby: bandwidth overhead and recovery by batch and codec, beside a plain
    restart from the checkpoint."""
    from kigen_lab.bench.standby.benchmark import StandbyBench, settings_of
    from kigen_lab.bench.standby.report import draw_standby, standby_tables

    settings = settings_of(
        quick,
        out=out,
        trials=trials,
        rate=rate,
        seed=seed,
        silence_s=silence,
        query=None if query is None else query.value,
        batches=tuple(n or None for n in batch) if batch else None,
        codecs=tuple(one.value for one in codec) if codec else None,
    )
    bench = StandbyBench(settings, say)
    return Measurement(bench.steps, bench.run, standby_tables, draw_standby)


STANDBY = Benchmark("standby", "kigen bench standby --quick --json standby.json", _prepare)
