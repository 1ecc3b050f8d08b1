"""Turns a benchmark into a subcommand of `kigen bench`: adds the common options, runs it and delivers its result.

A benchmark is a function in its folder's `registered.py`. Its docstring is the help text, its parameters after `say`,
`quick` and `out` are its own options, and it returns a `Measurement`. One line in `kigen_lab.bench.registry` adds it to
the command. Progress goes to standard error, tables go to standard output.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kigen.cli.exits import exit_codes
from kigen_lab.bench.worker import ContestantFailed

Result = dict[str, Any]
Say = Callable[[str], None]  # reports what is being measured
Advance = Callable[[], None]  # reports that a step is done

_WIDTH = 160
_GIVEN = ("say", "quick", "out")
_COMMON: dict[str, tuple[Any, Any]] = {
    "quick": (Annotated[bool, typer.Option("--quick", help="Measure less: a few minutes.")], False),
    "json_file": (
        Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers here as JSON.")],
        None,
    ),
    "out": (
        Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for data, results and pictures.")],
        Path("out/bench"),
    ),
}


@dataclass(frozen=True)
class Measurement:
    """A benchmark that is ready to run, and how to show its result.

    `failure` returns why it ended early, or None. What was measured until then is delivered all the same.
    """

    steps: int
    run: Callable[[Advance], Result]
    tables: Callable[[Result], RenderableType]
    draw: Callable[[Result, Path], None] | None = None
    failure: Callable[[], str | None] = lambda: None
    name: str | None = None  # of its files, if not the benchmark's


@dataclass(frozen=True)
class Benchmark:
    """A subcommand of `kigen bench`. `prepare` takes `say`, `quick`, `out` and the benchmark's own options."""

    name: str
    example: str
    prepare: Callable[..., Measurement]

    def add_to(self, group: typer.Typer) -> None:
        group.command(self.name, epilog=f"Example:  {self.example}", help=inspect.getdoc(self.prepare))(self._command())

    def _command(self) -> Callable[..., None]:
        """Returns a function whose signature is the common options and the benchmark's own, as Typer reads it."""

        def command(quick: bool, json_file: Path | None, out: Path, **own: Any) -> None:
            with exit_codes():
                with _progress() as (say, start):
                    measurement = self.prepare(say, quick, out, **own)
                    result = measurement.run(start(measurement.steps))
                name = measurement.name or self.name
                picture = None if measurement.draw is None else out / f"{name}.png"
                if measurement.draw is not None and picture is not None:
                    measurement.draw(result, picture)
                _deliver(result, measurement.tables(result), json_file or out / f"{name}.json", picture)
                if (why := measurement.failure()) is not None:
                    raise ContestantFailed(f"ended early, with what was measured until then: {why}")

        keyword = inspect.Parameter.KEYWORD_ONLY
        common = [
            inspect.Parameter(name, keyword, annotation=annotation, default=default)
            for name, (annotation, default) in _COMMON.items()
        ]
        declared = inspect.signature(self.prepare, eval_str=True).parameters.values()
        own = [parameter.replace(kind=keyword) for parameter in declared if parameter.name not in _GIVEN]
        command.__signature__ = inspect.Signature([*common, *own])  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*common, *own)}
        return command


@contextmanager
def _progress() -> Iterator[tuple[Say, Callable[[int], Advance]]]:
    """Yields `say` and `start(steps)`, which returns what to call after each step. Without a terminal, `say` prints."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_line, lambda _: lambda: None
        return
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def start(steps: int) -> Advance:
            bar.update(task, total=steps)
            return lambda: bar.advance(task)

        yield lambda text: bar.update(task, description=text), start


def _plain_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _deliver(result: Result, tables: RenderableType, json_file: Path, picture: Path | None) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(tables)
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    typer.echo(f"{json_file}" + (f", {picture}" if picture else ""))
