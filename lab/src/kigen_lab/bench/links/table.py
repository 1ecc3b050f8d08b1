"""Shows `kigen bench links` as tables."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def links_tables(result: dict[str, Any]) -> RenderableType:
    machine, figure = result["machine"], result["figure"]
    where = (
        f"{machine['cores']} cores ({machine['processor']}), pyarrow {machine['versions']['pyarrow']}, "
        f"{machine['date']}"
    )
    about = f"{where}; load before {machine['load_before']}; medians of {result['settings']['trials']}"
    mark = "yes" if figure["met"] else "NO"
    reached = (
        f"{figure['what']}: {figure['reached'] / 1e6:.2f} M ({figure['where']}); to reach "
        f"{figure['target'] / 1e6:g} M: {mark}"
    )
    return Group(Text(about, style="dim"), _throughput(result), _latency(result), Text(reached))


def _throughput(result: dict[str, Any]) -> Table:
    table = Table(title="throughput between two processes, with acks", title_justify="left", box=SIMPLE)
    for name in ("way", "queue", "compress"):
        table.add_column(name)
    for name in (
        "tuples per block",
        "M tuples/s",
        "CPU us per tuple",
        "MB/s payload",
        "payload bytes per tuple",
        "wire bytes per tuple",
    ):
        table.add_column(name, justify="right")
    before = None
    for cell in result["throughput"]:
        if before not in (None, (cell["way"], cell["durability"])):
            table.add_section()
        before = cell["way"], cell["durability"]
        table.add_row(
            cell["way"],
            cell["durability"],
            cell["compress"],
            f"{cell['size']:,}",
            f"{cell['tuples_s'] / 1e6:.2f}",
            f"{cell['cpu_us_tuple']:.2f}",
            f"{cell['tuples_s'] * cell['payload_bytes_tuple'] / 1e6:.0f}",
            f"{cell['payload_bytes_tuple']:.1f}",
            f"{cell['wire_bytes_tuple']:.1f}",
        )
    return table


def _latency(result: dict[str, Any]) -> Table:
    title = "one block at a time, ms (pull: append to decoded over there; push: append to ack)"
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for name in ("way", "queue"):
        table.add_column(name)
    for name in ("tuples", "p50", "p95", "p99"):
        table.add_column(name, justify="right")
    for cell in result["latency"]:
        values = [f"{cell[p]:.2f}" for p in ("p50_ms", "p95_ms", "p99_ms")]
        table.add_row(cell["way"], cell["durability"], f"{cell['size']:,}", *values)
    return table
