"""`kigen bench NAME`: benchmarks as tables, JSON and pictures. Progress goes to standard error, tables to standard
output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
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
    both = "both"
    range = "range"
    rows = "rows"


class StandbyQuery(StrEnum):
    SELECTION = "selection"
    WINDOW = "window"


class Codec(StrEnum):
    NONE = "none"
    ZLIB = "zlib"
    ZSTD = "zstd"
    LZ4 = "lz4"


class Lifetime(StrEnum):
    dt = "dt"
    nt = "nt"


@bench.command(
    epilog="Example:  kigen bench lifetimes --quick --query join --window 10 --window 10000 --json join.json"
)
def lifetimes(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    query: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this query (may be repeated).")] = None,
    window: Annotated[
        list[int] | None, typer.Option(metavar="W", help="Only this window, in tuples (may be repeated).")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="RANGE windows, ROWS windows, or both in one result.")] = Kind.both,
    trials: Annotated[
        int | None, typer.Option(metavar="N", help="Runs of each contestant; the median counts.", show_default="3")
    ] = None,
    tuples: Annotated[
        int | None, typer.Option(metavar="N", help="Tuples of a run.", show_default="24,000,000, or half of it")
    ] = None,
) -> None:
    """The lifetime paper's six queries: Kigen on Spark, plain Structured Streaming, and the kernel alone, in turns."""
    with exit_codes():
        from kigen_lab.bench.lifetimes.benchmark import LifetimesBench
        from kigen_lab.bench.lifetimes.picture import draw_throughput
        from kigen_lab.bench.lifetimes.settings import lifetimes_settings
        from kigen_lab.bench.lifetimes.targets import figures
        from kigen_lab.bench.tables import lifetimes_tables
        from kigen_lab.bench.worker import ContestantFailed

        settings = lifetimes_settings(quick, out, query, window, kind.value, trials, tuples)
        with _progress() as (tell, start):
            benchmark = LifetimesBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        result["figures"] = [figure.to_json() for figure in figures(result)]
        picture = out / "lifetimes.png"
        draw_throughput(result, picture)
        _deliver(result, lifetimes_tables(result), json_file or out / "lifetimes.json", picture)
        if benchmark.failed is not None:
            raise ContestantFailed(f"ended before the end, with what was measured until then: {benchmark.failed}")


@bench.command(epilog="Example:  kigen bench floor --quick --json floor.json")
def floor(quick: Quick = False, json_file: JsonFile = None, out: Out = Path("out/bench")) -> None:
    """The fixed cost of a micro-batch and its phases: Kigen and plain stateful queries, in turns."""
    with exit_codes():
        from kigen_lab.bench.floor.benchmark import FloorSettings, run_floor_bench, turns
        from kigen_lab.bench.tables import floor_table

        settings = FloorSettings(rounds=2, batches=20, out=out) if quick else FloorSettings(out=out)
        with _progress() as (tell, start):
            result = run_floor_bench(settings, tell, start(turns(settings)))
        _deliver(result, floor_table(result), json_file or out / "floor.json", None)


@bench.command(
    epilog="Example:  kigen bench deadlines --policy all --policy pack --load 1.3 --seconds 240 --json deadlines.json"
)
def deadlines(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    policy: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this policy (may be repeated).")
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(metavar="L", help="Only this load: a share of capacity, or 'safe' (may be repeated)."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Length of a cell.", show_default="240, quick 60")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks that run at once.", show_default="one a core")
    ] = None,
    soft: Annotated[
        bool, typer.Option("--soft", help="Deadlines without FIRM: late results are delivered, nothing is dropped.")
    ] = False,
) -> None:
    """Twenty queries with deadlines of 1 to 30 s under bursts, at several loads: what each policy misses, beside the
    bound."""
    with exit_codes():
        from kigen.schedule import read_policy
        from kigen_lab.bench.deadlines.benchmark import DeadlinesBench, DeadlinesSettings
        from kigen_lab.bench.deadlines.report import deadlines_table, draw_deadlines

        standard = DeadlinesSettings(seconds=60.0, policies=("all", "pack")) if quick else DeadlinesSettings()
        policies = tuple(policy) if policy else standard.policies
        for name in policies:
            read_policy(name)
        settings = replace(
            standard,
            out=out,
            policies=policies,
            loads=tuple(_load(text) for text in load) if load else standard.loads,
            seconds=standard.seconds if seconds is None else seconds,
            partitions=partitions,
            firm=not soft,
        )
        with _progress() as (tell, start):
            benchmark = DeadlinesBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        picture = out / "deadlines.png"
        draw_deadlines(result, picture)
        _deliver(result, deadlines_table(result), json_file or out / "deadlines.json", picture)


def _load(text: str) -> float | str:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if text != "safe" and not 0 < value <= 10:
        raise typer.BadParameter(f"a load is a share of capacity such as 1.3, or 'safe', not '{text}'")
    return text if text == "safe" else value


@bench.command("shared-joins", epilog="Example:  kigen bench shared-joins --quick --json shared.json")
def shared_joins(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    queries: Annotated[
        list[int] | None, typer.Option(metavar="N", help="So many queries, and one (may be repeated).")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="RANGE or ROWS windows.")] = Kind.range,
    lifetime: Annotated[Lifetime, typer.Option(help="Direct or negative tuples.")] = Lifetime.dt,
    kernel_only: Annotated[bool, typer.Option("--kernel-only", help="Without the runs on Spark.")] = False,
) -> None:
    """1, 10 and 100 queries over one join that differ in their windows: shared against separate, kernel and Spark."""
    with exit_codes():
        from kigen_lab.bench.shared_joins.benchmark import SharedJoinsBench, shared_joins_settings
        from kigen_lab.bench.shared_joins.report import draw_shared_joins, shared_joins_table

        settings = shared_joins_settings(quick, out, queries, kind.value, lifetime.value, not kernel_only)
        with _progress() as (tell, start):
            benchmark = SharedJoinsBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        picture = out / "shared-joins.png"
        draw_shared_joins(result, picture)
        _deliver(result, shared_joins_table(result), json_file or out / "shared-joins.json", picture)


@bench.command(epilog="Example:  kigen bench joins --quick --json joins.json")
def joins(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs of each query.", show_default="3, quick 1")
    ] = None,
) -> None:
    """Joins of many versions, by computed keys, of many pairs: time per version, events per second, memory; judged by
    DuckDB."""
    with exit_codes():
        from kigen_lab.bench.joins.benchmark import JoinsBench, joins_settings
        from kigen_lab.bench.joins.report import draw_joins, joins_tables

        settings = joins_settings(quick, out, trials)
        with _progress() as (tell, start):
            benchmark = JoinsBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        picture = out / "joins.png"
        draw_joins(result, picture)
        _deliver(result, joins_tables(result), json_file or out / "joins.json", picture)


@bench.command(epilog="Example:  kigen bench links --quick --json links.json")
def links(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs of each; the median counts.", show_default="3")
    ] = None,
) -> None:
    """What a link between two processes carries, with acks on: in memory, in files, with fsync; and the latency of one
    block."""
    with exit_codes():
        from dataclasses import replace

        from kigen_lab.bench.links.benchmark import QUICK, LinksSettings, run_links_bench, turns
        from kigen_lab.bench.links.table import links_tables

        settings = replace(QUICK if quick else LinksSettings(), out=out)
        settings = settings if trials is None else replace(settings, trials=trials)
        with _progress() as (tell, start):
            result = run_links_bench(settings, tell, start(turns(settings)))
        _deliver(result, links_tables(result), json_file or out / "links.json", None)


@bench.command(epilog="Example:  kigen bench placement --quick --json placement.json")
def placement(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    nodes: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only sizes of so many nodes (may be repeated).")
    ] = None,
    sharing: Annotated[
        list[float] | None, typer.Option(help="Only plans that share so much, 0 to 1 (may be repeated).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random plans.")] = 1,
    stretch: Annotated[
        float, typer.Option(help="Wall time limits times this, on a busy machine; not CPU time.", min=1)
    ] = 1.0,
) -> None:
    """Placing random plans on 2-50 nodes: solve time and gap, the heuristic beside the bound."""
    with exit_codes():
        from kigen_lab.bench.placement.benchmark import (
            QUICK,
            SHARINGS,
            SIZES,
            PlacementSettings,
            draw_placement_bench,
            placement_table,
            run_placement_bench,
        )

        sizes = tuple(s for s in (QUICK if quick else SIZES) if nodes is None or s.nodes in nodes)
        settings = PlacementSettings(sizes, tuple(sharing or ((0.2,) if quick else SHARINGS)), seed, stretch=stretch)
        with _progress() as (tell, start):
            result = run_placement_bench(settings, tell, start(len(settings.sizes) * len(settings.sharings)))
        picture = out / "placement.png"
        draw_placement_bench(result, picture)
        _deliver(result, placement_table(result), json_file or out / "placement.json", picture)


@bench.command(epilog="Example:  kigen bench nodes --quick --json nodes.json")
def nodes(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    stretch: Annotated[
        float | None, typer.Option(help="The paper's times, times this.", min=10, show_default="130, quick 75")
    ] = None,
    activations: Annotated[
        int | None, typer.Option(help="How often all tuples come.", min=1, show_default="2, quick 1")
    ] = None,
    tuples: Annotated[
        int | None, typer.Option(help="V2V tuples of an activation, on average.", min=1, show_default="12")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the number of tuples in an activation.")] = None,
    edf: Annotated[
        str | None, typer.Option(metavar="POLICY", help="What stands for EDF.", show_default="pack:overload=edf")
    ] = None,
) -> None:
    """The placement paper's experiment on two node processes: two allocations by EDF and FIFO, what is late of outputs
    1 and 2."""
    with exit_codes():
        from kigen.schedule import read_policy
        from kigen_lab.bench.nodes.app import QUICK, NodesSettings
        from kigen_lab.bench.nodes.benchmark import NodesBench
        from kigen_lab.bench.nodes.report import draw_nodes, nodes_tables

        given: dict[str, Any] = {
            "stretch": stretch,
            "activations": activations,
            "v2v_tuples": tuples,
            "seed": seed,
            "edf": edf,
        }
        settings = replace(
            QUICK if quick else NodesSettings(), out=out, **{k: v for k, v in given.items() if v is not None}
        )
        read_policy(settings.edf)
        with _progress() as (tell, start):
            benchmark = NodesBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        picture = out / "nodes.png"
        draw_nodes(result, picture)
        _deliver(result, nodes_tables(result), json_file or out / "nodes.json", picture)


@bench.command(epilog="Example:  kigen bench standby --quick --json standby.json")
def standby(
    quick: Quick = False,
    json_file: JsonFile = None,
    out: Out = Path("out/bench"),
    trials: Annotated[
        int | None, typer.Option(metavar="N", help="Kills of the leader a cell.", min=1, show_default="5, quick 1")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Tuples a second.", min=1, show_default="25")] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only these batches (may be repeated); 0: one that is never full (UB).", min=0),
    ] = None,
    codec: Annotated[
        list[Codec] | None, typer.Option(help="Only these codecs (may be repeated).", show_default="none, zlib, zstd")
    ] = None,
    query: Annotated[
        StandbyQuery | None,
        typer.Option(help="What runs on the node: selection keeps nothing, window does.", show_default="selection"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the stream and of the moments of kills.")] = None,
) -> None:
    """A node with a standby, killed: bandwidth overhead and recovery by batch and codec, beside plain restart from
    checkpoint."""
    with exit_codes():
        from kigen_lab.bench.standby.benchmark import StandbyBench, settings_of
        from kigen_lab.bench.standby.report import draw_standby, standby_tables

        kind = None if query is None else query.value
        batches = tuple(n or None for n in batch) if batch else None
        codecs = tuple(one.value for one in codec) if codec else None
        settings = settings_of(
            quick, out=out, trials=trials, rate=rate, seed=seed, query=kind, batches=batches, codecs=codecs
        )
        with _progress() as (tell, start):
            benchmark = StandbyBench(settings, tell)
            result = benchmark.run(start(benchmark.steps))
        picture = out / "standby.png"
        draw_standby(result, picture)
        _deliver(result, standby_tables(result), json_file or out / "standby.json", picture)


Tell = Callable[[str], None]


@contextmanager
def _progress() -> Iterator[tuple[Tell, Callable[[int], Callable[[], None]]]]:
    """`tell` what is being done, and `start(steps)`, which gives what to call after each step. Plain lines when nobody
    watches."""
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
