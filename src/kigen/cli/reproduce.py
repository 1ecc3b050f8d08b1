"""`kigen reproduce NAME`: a paper's figure as PNG and JSON, with a progress bar and a table of the means."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kigen.cli.exits import exit_codes


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="ats-batch, ats-kp, ats-ki, ats-overhead, ats-sdmr-fixed, ...")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where NAME.png and NAME.json go.")] = Path("figures"),
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="The JSON goes here instead.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points, seeds and tuples.")] = False,
) -> None:
    """Make a paper's figure again: ours beside the published points."""
    with exit_codes():
        from kigen.reproduce import make_figure, write_figure

        with _Bar() as bar:
            result = make_figure(name, quick, bar.told)
        written = write_figure(result, out, json_file)
        for panel in result["panels"]:
            _table(panel)
        typer.echo("written: " + ", ".join(str(path) for path in written))


class _Bar:
    """A bar on a terminal, a line a panel elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def told(self, panel: str, done: int, of: int) -> None:
        if panel not in self._tasks:
            self._tasks[panel] = self._progress.add_task(panel, total=of)
            if not self._console.is_terminal:
                sys.stderr.write(f"{panel}: {of} workloads\n")
        self._progress.update(self._tasks[panel], completed=done)


def _table(panel: dict[str, Any]) -> None:
    metric, factor, digits = panel["metric"], *((1e-6, 1) if panel["metric"] == "overhead_us" else (100.0, 2))
    unit = "s" if metric == "overhead_us" else "%"
    table = Table(title=f"{panel['title']} ({unit}, mean and spread)", title_justify="left", box=SIMPLE)
    curves = panel["series"]
    table.add_column(panel["across"])
    for label in curves:
        table.add_column(label, justify="right")
    for index, x in enumerate(next(iter(curves.values()))["x"]):
        cells = [(curve[metric]["mean"][index] * factor, curve[metric]["sd"][index] * factor) for curve in curves.values()]
        table.add_row(f"{x:g}", *(f"{mean:.{digits}f} ±{sd:.{digits}f}" for mean, sd in cells))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)
