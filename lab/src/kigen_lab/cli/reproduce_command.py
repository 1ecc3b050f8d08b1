"""`kigen reproduce NAME`: makes a figure of a paper as PNG and JSON, with a progress bar and tables.

Without NAME, it lists all figures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer.core import TyperCommand

from kigen.cli.exits import exit_codes


class ListedFigures(TyperCommand):
    """Lists all figures in `--help`. They are imported only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.epilog = "\b\n" + "\n".join(["Figures:", *_listing()])
        super().format_help(ctx, formatter)


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The figure to make. Without it, all figures are listed.", show_default=False
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for NAME.png and NAME.json.")] = Path("figures"),
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the JSON to this file instead.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer points, seeds and tuples.")] = False,
) -> None:
    """Reproduce a figure of a paper: our results beside the published points."""
    if name is None:
        typer.echo("\n".join(_listing()))
        return
    with exit_codes():
        from kigen_lab.reproduce import FIGURES, make_figure, write_figure

        with _Bar() as bar:
            result = make_figure(name, quick, bar.show)
        written = write_figure(result, out, json_file)
        for table in FIGURES[name].tables(result):
            _print(table)
        typer.echo("written: " + ", ".join(str(path) for path in written))


def _listing() -> list[str]:
    from kigen_lab.reproduce import FIGURES

    width = max(map(len, FIGURES))
    return [f"{name:<{width}}  {figure.about}" for name, figure in FIGURES.items()]


class _Bar:
    """Shows a bar on a terminal, and a line per panel elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, panel: str, done: int, of: int) -> None:
        if panel not in self._tasks:
            self._tasks[panel] = self._progress.add_task(panel, total=of)
            if not self._console.is_terminal:
                sys.stderr.write(f"{panel}: {of} runs\n")
        self._progress.update(self._tasks[panel], completed=done)


def _print(table: Any) -> None:
    drawn = Table(title=table.title, title_justify="left", box=SIMPLE)
    for index, column in enumerate(table.columns):
        drawn.add_column(column, justify="right" if index else "left")
    for row in table.rows:
        drawn.add_row(*row)
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(drawn)
