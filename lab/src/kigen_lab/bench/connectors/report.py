"""Shows `kigen bench connectors` as a table, with the figures to reach."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.connectors.parts import JSON, TARGETS, WHAT


def connectors_table(result: dict[str, Any]) -> RenderableType:
    table = Table(title="connectors, medians of the turns", title_justify="left", box=SIMPLE)
    for name in ("what", "contestant", "figure", "reached", "least", "most", "to reach", ""):
        table.add_column(name, justify="right" if name in ("reached", "least", "most", "to reach") else "left")
    for cell in result["cells"]:
        targets = {target.figure: target for target in TARGETS[cell["part"]]} if cell["contestant"] == "kigen" else {}
        for figure, value in cell["medians"].items():
            turns, target = [turn[figure] for turn in cell["turns"]], targets.get(figure)
            aim = "" if target is None else f"{'>=' if target.least else '<='} {target.value:,.0f}"
            mark = "" if target is None else "yes" if target.met(value) else "NO"
            shown = [_number(number) for number in (value, min(turns), max(turns))]
            label = "" if figure == "per_s" else figure
            table.add_row(WHAT[cell["part"]], cell["contestant"], label, *shown, aim, mark)
    machine, settings = result["machine"], result["settings"]
    heading = (
        f"{machine['cores']} cores, servers beside it, {machine['date']}, load before {machine['load_before']}; "
        f"{settings['turns']} turns"
    )
    notes = [Text(f"not measured: {name}: {why}", style="bold red") for name, why in result["missing"].items()]
    return Group(Text(heading, style="dim"), table, *notes, *_against_bytewax(result["cells"]))


def _against_bytewax(cells: list[dict[str, Any]]) -> list[Text]:
    rates = {cell["contestant"]: cell["medians"]["per_s"] for cell in cells if cell["part"] == JSON}
    others = {name: rate for name, rate in rates.items() if name != "kigen"}
    if "kigen" not in rates or not others:
        return []
    best = max(others, key=others.__getitem__)
    return [
        Text(
            f"Kigen over the best of bytewax ({best}): {rates['kigen'] / others[best]:.2f} "
            "(Kigen exactly once by transactions; bytewax without recovery)"
        )
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"
