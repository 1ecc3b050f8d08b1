"""Shows `kigen bench idle` as a table."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.idle.process_times import ROLES


def idle_table(result: dict[str, Any]) -> RenderableType:
    machine, target = result["machine"], result["target_percent"]
    about = (
        f"{machine['cores']} cores ({machine['processor']}), {machine['date']}; load before {machine['load_before']}; "
        f"{result['settings']['seconds']:g} s per app"
    )
    table = Table(title="CPU time of idle apps, percent of a core", title_justify="left", box=SIMPLE)
    table.add_column("app")
    for name in (*ROLES, "all", f"below {target:g}"):
        table.add_column(name, justify="right")
    for cell in result["cells"]:
        used = [f"{cell[name]:.2f}" for name in (*ROLES, "all")]
        table.add_row(cell["app"], *used, "yes" if cell["all"] < target else "NO")
    return Group(Text(about, style="dim"), table)
