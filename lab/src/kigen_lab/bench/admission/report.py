"""Shows `kigen bench admission` as a table."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def admission_table(result: dict[str, Any]) -> RenderableType:
    machine, settings, figure = result["machine"], result["settings"], result["figure"]
    about = (
        f"{machine['cores']} cores ({machine['processor']}), {machine['date']}; load before {machine['load_before']}; "
        f"policy {settings['policy']}; medians of {settings['rounds']} rounds, {settings['trials']} trials"
    )
    table = Table(title="CPU time of admission per round, ms", title_justify="left", box=SIMPLE)
    for name in ("queries", "streams with news", "decision", "messages", "round", "round p99"):
        table.add_column(name, justify="right")
    for cell in result["cells"]:
        times = [f"{cell[name]:.2f}" for name in ("decision_ms", "messages_ms", "round_ms", "p99_ms")]
        table.add_row(str(cell["queries"]), str(cell["news"]), *times)
    parts: list[RenderableType] = [Text(about, style="dim"), table]
    if figure is not None:
        parts.append(
            Text(
                f"{figure['queries']} queries, all with news: {figure['reached_ms']:.2f} ms; to reach "
                f"{figure['target_ms']:g}: {'yes' if figure['met'] else 'NO'}"
            )
        )
    return Group(*parts)
