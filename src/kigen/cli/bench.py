"""`kigen bench NAME`: benchmarks as tables, JSON and pictures. Progress goes to standard error, tables to standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from kigen.cli.exits import exit_codes

_WIDTH = 160


class BenchGroup(TyperGroup):
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None:
            ctx.fail(f"no benchmark '{cmd_name}': there is {', '.join(self.list_commands(ctx))}")
        return found


bench = typer.Typer(cls=BenchGroup, help="Benchmarks: a table, and JSON with --json.", no_args_is_help=True)
Quick = Annotated[bool, typer.Option("--quick", help="The short form, a few minutes.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every number as JSON.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where data, results and pictures go.")]


class Kind(StrEnum):
    range = "range"
    rows = "rows"


class Lifetime(StrEnum):
    dt = "dt"
    nt = "nt"


@bench.command(epilog="Example:  kigen bench lifetimes --quick --query join --window 10 --window 10000 --json join.json")
def lifetimes(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    query: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this query (may be repeated).")] = None,
    window: Annotated[list[int] | None, typer.Option(metavar="W", help="Only this window, in tuples (may be repeated).")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only RANGE or only ROWS windows.")] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="Runs of each contestant; the median counts.", show_default="3")] = None,
    tuples: Annotated[int | None, typer.Option(metavar="N", help="Tuples of a run.", show_default="4,000,000 or more")] = None,
) -> None:
    """The lifetime paper's six queries: Kigen on Spark, plain Structured Streaming, and the kernel alone, in turns."""
    with exit_codes():
        from kigen.bench.figures import figures
        from kigen.bench.lifetimes import LifetimesBench
        from kigen.bench.picture import draw_throughput
        from kigen.bench.settings import lifetimes_settings
        from kigen.bench.tables import lifetimes_tables

        settings = lifetimes_settings(quick, out, query, window, None if kind is None else kind.value, trials, tuples)
        with _progress() as (tell, start):
            benchmark = LifetimesBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        result["figures"] = [figure.to_json() for figure in figures(result)]
        picture = out / "lifetimes.png"
        draw_throughput(result, picture)
        _deliver(result, lifetimes_tables(result), json_file or out / "lifetimes.json", picture)


@bench.command(epilog="Example:  kigen bench floor --quick --json floor.json")
def floor(quick: Quick = False, json_file: JsonFile = None, out: Out = Path("out/bench")) -> None:
    """The fixed cost of a micro-batch and its phases: Kigen and plain stateful queries, in turns."""
    with exit_codes():
        from kigen.bench.floor import FloorSettings, run_floor_bench, turns
        from kigen.bench.tables import floor_table

        settings = FloorSettings(rounds=2, batches=20, out=out) if quick else FloorSettings(out=out)
        with _progress() as (tell, start):
            result = run_floor_bench(settings, tell, start(turns(settings)))
        _deliver(result, floor_table(result), json_file or out / "floor.json", None)


@bench.command("shared-joins", epilog="Example:  kigen bench shared-joins --quick --json shared.json")
def shared_joins(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    queries: Annotated[list[int] | None, typer.Option(metavar="N", help="So many queries, and one (may be repeated).")] = None,
    kind: Annotated[Kind, typer.Option(help="RANGE or ROWS windows.")] = Kind.range,
    lifetime: Annotated[Lifetime, typer.Option(help="Direct or negative tuples.")] = Lifetime.dt,
    kernel_only: Annotated[bool, typer.Option("--kernel-only", help="Without the runs on Spark.")] = False,
) -> None:
    """1, 10 and 100 queries over one join that differ in their windows: shared against separate, kernel and Spark."""
    with exit_codes():
        from kigen.bench.shared_joins import SharedJoinsBench, shared_joins_settings
        from kigen.bench.shared_joins_report import draw_shared_joins, shared_joins_table

        settings = shared_joins_settings(quick, out, queries, kind.value, lifetime.value, not kernel_only)
        with _progress() as (tell, start):
            benchmark = SharedJoinsBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        picture = out / "shared-joins.png"
        draw_shared_joins(result, picture)
        _deliver(result, shared_joins_table(result), json_file or out / "shared-joins.json", picture)


Tell = Callable[[str], None]


@contextmanager
def _progress() -> Iterator[tuple[Tell, Callable[[int], Callable[[], None]]]]:
    """`tell` what is being done, and `start(steps)`, which gives what to call after each step. Plain lines when nobody watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_line, lambda _: lambda: None
        return
    columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def start(steps: int) -> Callable[[], None]:
            bar.update(task, total=steps)
            return lambda: bar.advance(task)

        yield lambda text: bar.update(task, description=text), start


def _plain_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _deliver(result: dict[str, Any], tables: RenderableType, json_file: Path, picture: Path | None) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(tables)
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    typer.echo(f"{json_file}" + (f", {picture}" if picture else ""))
