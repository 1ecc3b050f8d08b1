"""Shows `kigen bench recovery` as a table: medians in seconds, beside what is to be reached."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

BEYOND_S, TERM_S = 3.0, 5.0  # to reach


def recovery_table(result: dict[str, Any]) -> RenderableType:
    table = Table(title="seconds, medians", title_justify="left", box=SIMPLE)
    table.add_column("tuples/s", justify="right")
    for name in (
        "first start to result",
        "restart after SIGTERM",
        "restart after SIGKILL",
        f"beyond it (<= {BEYOND_S:g})",
        "caught up",
        f"SIGTERM to end (<= {TERM_S:g})",
        "exit",
    ):
        table.add_column(name, justify="right")
    for cell in result["cells"]:
        seconds = cell["medians"]
        shown = [
            *(seconds[kind] for kind in ("first_s", "after_term_s", "after_kill_s")),
            cell["beyond_start_s"],
            seconds["caught_up_s"],
            seconds["term_s"],
        ]
        codes = ", ".join(map(str, cell["term_codes"]))
        table.add_row(f"{cell['rate']:,}", *(f"{s:.2f}" for s in shown), codes)
    machine, settings = result["machine"], result["settings"]
    heading = f"{machine['cores']} cores, {machine['date']}; epochs of {settings['epoch_s']:g} s, kills "
    return Group(Text(heading + f"{settings['late_s']:g} s after the first result", style="dim"), table)
