"""`kigen bench connectors`."""

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
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this part: kafka-json, kafka-arrow, kafka-latency, http, mqtt or postgres (may be repeated).",
        ),
    ] = None,
    turns: Annotated[int | None, typer.Option(metavar="N", help="Runs per cell.", show_default="3, quick 1")] = None,
) -> Measurement:
    """Measure the connectors on servers that are started here: Kafka to Kafka (also with bytewax, if it is installed),
    HTTP, MQTT and PostgreSQL."""
    from kigen_lab.bench.connectors.benchmark import ConnectorBench, ConnectorSettings
    from kigen_lab.bench.connectors.parts import PARTS
    from kigen_lab.bench.connectors.picture import draw_connectors
    from kigen_lab.bench.connectors.report import connectors_table

    short = ConnectorSettings(
        turns=1, json_rows=500_000, arrow_rows=5_000_000, warm_s=4.0, seconds=8.0, mqtt_messages=30_000
    )
    standard = short if quick else ConnectorSettings()
    for name in part or ():
        if name not in PARTS:
            raise typer.BadParameter(f"there is no part '{name}': write one of {', '.join(PARTS)}")
    settings = replace(
        standard,
        out=out,
        parts=tuple(part) if part else standard.parts,
        turns=standard.turns if turns is None else turns,
    )
    bench = ConnectorBench(settings, say)
    return Measurement(bench.steps, bench.run, connectors_table, draw_connectors)


CONNECTORS = Benchmark("connectors", "kigen bench connectors --part kafka-json --json connectors.json", _prepare)
