"""Shows the results of `kigen bench lifetimes` and `kigen bench floor` as tables."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.lifetimes.targets import figures

_CONTESTANTS = ("kigen dt", "kigen nt", "plain", "kernel dt", "kernel nt")
_RATIOS = {"kigen_over_plain": "kigen/plain", "kigen_over_kernel": "kigen/kernel", "kernel_dt_over_nt": "DT/NT kernel"}


def lifetimes_tables(result: dict[str, Any]) -> RenderableType:
    parts: list[RenderableType] = [_machine(result), _cells(result["cells"])]
    if result["memory"]:
        parts.append(_memory(result["memory"]))
    parts.append(_figures(result))
    paper = [c for c in result["cells"] if not c.get("newer")]
    unable = {(c["query"], c["why_not_plain"]) for c in paper if c["why_not_plain"] and c["kind"] == "range"}
    notes = [f"{query}: {why}" for query, why in sorted(unable)]
    if any(c["kind"] == "rows" for c in paper):
        notes.append("ROWS: no row windows over a stream in Structured Streaming")
    notes += [
        f"{store} state store {rate / 1e6:.3f} M/s"
        for q, s in result["plain_state_stores"].items()
        for store, rate in _of(q, s)
    ]
    parts += [Text(f"plain: {note}") for note in notes]
    parts += [Text(f"WARNING {_name(c)}: {w}", style="bold red") for c in result["cells"] for w in c["warnings"]]
    return Group(*parts)


def _of(query: str, rates: dict[str, float]) -> list[tuple[str, float]]:
    return [(f"{query}, {store}", rate) for store, rate in rates.items()]


def _machine(result: dict[str, Any]) -> Text:
    machine, trials = result["machine"], result["settings"].get("trials")
    spark = machine["versions"]["pyspark"]
    return Text(
        f"{machine['cores']} cores ({machine['processor']}), Spark {spark}, {machine['date']}; medians of {trials}",
        style="dim",
    )


def _cells(cells: list[dict[str, Any]]) -> Table:
    table = Table(title="million tuples per second, steady state", title_justify="left", box=SIMPLE)
    table.add_column("query")
    table.add_column("window")
    for name in ("W", *_CONTESTANTS, *_RATIOS.values(), "plain tuples"):
        table.add_column(name, justify="right")
    before = None
    for cell in cells:
        if before not in (None, (cell["query"], cell["kind"])):
            table.add_section()
        before = cell["query"], cell["kind"]
        rates = [_rate(cell["medians"].get(name)) for name in _CONTESTANTS]
        if cell["why_not_plain"] and not cell.get("newer"):
            rates[2] = "cannot"
        shown = [_ratio(cell["ratios"].get(name)) for name in _RATIOS]
        plain_tuples = "-" if cell["plain_tuples"] is None else f"{cell['plain_tuples']:,}"
        table.add_row(cell["query"], cell["kind"].upper(), f"{cell['window']:,}", *rates, *shown, plain_tuples)
    return table


def _memory(measured: list[dict[str, Any]]) -> Table:
    table = Table(title=f"bytes per window tuple, W = {measured[0]['window']:,}", title_justify="left", box=SIMPLE)
    for name in ("query", "window", "lifetime"):
        table.add_column(name)
    for name in ("Arrow", "saved state", "process", "state/Arrow", "process/Arrow"):
        table.add_column(name, justify="right")
    for m in measured:
        sizes = [f"{m[k]:.1f}" for k in ("arrow_bytes", "state_bytes", "resident_bytes")]
        table.add_row(
            m["query"],
            m["kind"].upper(),
            m["lifetime"],
            *sizes,
            _ratio(m["state_over_arrow"]),
            _ratio(m["resident_over_arrow"]),
        )
    return table


def _figures(result: dict[str, Any]) -> Table:
    table = Table(title="figures to reach, by the cell that decides", title_justify="left", box=SIMPLE)
    for name in ("what", "to reach", "reached", "", "decided by"):
        table.add_column(name, justify="right" if name in ("to reach", "reached") else "left")
    for figure in figures(result):
        sign = ">=" if figure.least else "<="
        mark = {True: "yes", False: "NO", None: "-"}[figure.met]
        table.add_row(figure.what, f"{sign} {figure.target:g}", _ratio(figure.reached), mark, figure.where)
    return table


def floor_table(result: dict[str, Any]) -> RenderableType:
    contestants: dict[str, dict[str, Any]] = result["contestants"]
    table = Table(
        title=f"a micro-batch of {result['settings']['tuples']} tuples, median ms", title_justify="left", box=SIMPLE
    )
    table.add_column("phase")
    for name in contestants:
        table.add_column(name, justify="right")
    for phase in result["phases"]:
        table.add_row(phase, *(_ms(c["medians_ms"].get(phase)) for c in contestants.values()))
    table.add_row("batches measured", *(str(c["batches"]) for c in contestants.values()))
    notes = [Text(f"Kigen over {name}: {ratio:.2f}") for name, ratio in result["ratios"].items()]
    notes += [Text(f"not measured: {why}", style="bold red") for why in result["missing"]]
    return Group(_machine(result), table, *notes)


def _name(cell: dict[str, Any]) -> str:
    return f"{cell['query']} {cell['kind']} {cell['window']:,}"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e6:.3g}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
