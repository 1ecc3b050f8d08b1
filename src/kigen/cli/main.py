"""The command `kigen`. Thin: arguments in, exit code out (0 done, 1 the run failed, 2 the app file or the arguments are
wrong).

Spark is imported by the commands that need it only: `kigen check` answers at once.
"""

from __future__ import annotations

import atexit
import os
import sys
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from kigen.cli.exits import exit_codes
from kigen.cli.lab_commands import add_lab_commands
from kigen.engine import defaults

EXAMPLE = """
An app file declares streams and queries:\n
\b
  CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
    FROM csv (path = 'readings.csv');
  CREATE QUERY hot DEADLINE 2 SECONDS AS
    SELECT room, AVG(temp) AS mean FROM readings [RANGE 10 SECONDS] GROUP BY room;\n
\b
  kigen run rooms.cql --drain --output out      all of readings.csv; results in out/hot.csv
  kigen check rooms.cql                         all errors of the file, at once
  kigen explain rooms.cql                       the plan as a tree
"""

app = typer.Typer(
    name="kigen",
    help="Continuous queries with deadlines on Spark: CQL in, results with lifetimes out.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_lab_commands(app)
AppFile = Annotated[
    Path,
    typer.Argument(metavar="APP", help="The app file: CREATE STREAM and CREATE QUERY statements.", show_default=False),
]


MemoryOption = Annotated[
    str,
    typer.Option(
        "--memory", metavar="SIZE", help="What all workers of the run may use: 4GB, 512MB, or a share of the machine."
    ),
]
POLICY_HELP = (
    "What of live streams goes into the next micro-batch: pack (capped micro-batches of many queries, urgent ones "
    "first), all (everything, "
    "as plain Spark does), fifo, edf, taat, bts, bts1, ats, ats1. Over the slices of shared joins: mqt (those that "
    "answer most queries for "
    "their work first), mandf, admandf (mqt, but fifo while much is about to be lost to BUFFER). Settings follow a "
    "colon: "
    "ats:kp=1,ki=10,phi=100ms, mandf:beta=0.1, admandf:ahead=400, mqt:length=500ms."
)


DURABILITY_HELP = (
    "What a committed batch outlives: power (a power cut: every batch is synced to the disk) or process (a kill: the "
    "operating system has "
    "it; a power cut may cost the last seconds)."
)


class PlanFormat(StrEnum):
    text = "text"
    json = "json"
    mermaid = "mermaid"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kigen {version('kigen')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Continuous queries with deadlines on Spark: CQL in, results with lifetimes out."""


@app.command(epilog="Example:  kigen run rooms.cql --drain --output out --report report.json")
def run(
    app_file: AppFile,
    drain: Annotated[
        bool, typer.Option("--drain", help="Process all that finite sources hold, in event-time order, then exit.")
    ] = defaults.DRAIN,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Each query also writes DIR/<query>.csv.")] = None,
    lifetime: Annotated[
        str, typer.Option(metavar="dt|nt", help="How deaths travel: with the tuple (dt) or as negative tuples (nt).")
    ] = defaults.LIFETIME,
    policy: Annotated[str, typer.Option(metavar="NAME", help=POLICY_HELP)] = defaults.POLICY,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark's master; without it, this machine.", show_default="local[*]"),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where a run that was stopped or killed goes on from.")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write counts and latencies as JSON.")] = None,
    duration: Annotated[str | None, typer.Option(metavar="T", help="Stop after this time, such as '10 s'.")] = None,
    memory: MemoryOption = defaults.MEMORY,
    durability: Annotated[str, typer.Option(metavar="power|process", help=DURABILITY_HELP)] = defaults.DURABILITY,
) -> None:
    """Run an app until its sources end, --duration is over, or Ctrl-C."""
    with exit_codes():
        from kigen.cli.run_command import RunArguments, run_app

        arguments = RunArguments(
            app_file, drain, output, lifetime, policy, master, checkpoint, report, duration, memory, durability
        )
        run_app(arguments)


@app.command()
def check(
    app_file: AppFile,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also check the files that 'run --output DIR' would write.")
    ] = None,
) -> None:
    """Show all errors of an app file, and warnings of what will be costly, without starting Spark."""
    with exit_codes():
        from kigen.cli.loading import load, warn

        loaded = load(app_file, output)
        warn(loaded)
        counts = (
            f"{_plural(len(loaded.streams), 'stream')}, {_plural(len(loaded.queries), 'query', 'queries')}, no errors"
        )
        warnings = f", {_plural(len(loaded.warnings), 'warning')}" if loaded.warnings else ""
        typer.echo(f"{app_file}: {counts}{warnings}")


class Allocation(StrEnum):
    deadline = "deadline"
    sqpr = "sqpr"


@app.command(epilog="Example:  kigen explain rooms.cql --nodes nodes.toml --picture placement.png")
def explain(
    app_file: AppFile,
    format: Annotated[PlanFormat, typer.Option(help="A tree, JSON, or a Mermaid diagram.")] = PlanFormat.text,
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A nodes file: place the plan on its nodes.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Costs from a trial: the report of 'kigen run --report'.")
    ] = None,
    allocate: Annotated[
        Allocation, typer.Option(help="By deadlines, or as SQPR: traffic and load only.")
    ] = Allocation.deadline,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="For the placement; the best found so far is shown.", min=1)
    ] = 60.0,
    picture: Annotated[Path | None, typer.Option(metavar="PNG", help="Also draw the plan over the nodes.")] = None,
) -> None:
    """Show the plan: streams, operators, what queries share, tasks; with --nodes, what runs where and by when."""
    with exit_codes():
        if nodes is not None:
            from kigen.cli.explain_placement import explain_nodes

            typer.echo(
                explain_nodes(app_file, nodes, profile, allocate.value, time_limit, format.value, picture), nl=False
            )
            return
        from kigen.engine.apps import explain as explain_app

        typer.echo(explain_app(app_file, format=format.value))


NodesOption = Annotated[Path, typer.Option("--nodes", metavar="FILE", help="The nodes file.", show_default=False)]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="Where nodes keep queues and state.", show_default="beside the nodes file"
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="DIR", help="Each query also writes DIR/<query>.csv, on the node where it is wanted."
    ),
]
NodePolicy = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="How nodes admit: pack, edf, fifo ... as in 'kigen run'.")
]
AllocateOption = Annotated[
    Allocation, typer.Option("--allocate", help="By deadlines, or as SQPR: traffic and load only.")
]
LimitOption = Annotated[float, typer.Option("--time-limit", metavar="SECONDS", help="For the placement.", min=1)]
ProfileOption = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="Costs from a trial: the report of 'kigen run --report'."),
]


@app.command(epilog="Example:  kigen up rooms.cql --nodes nodes.toml --output out")
def up(
    app_file: AppFile,
    nodes: NodesOption,
    allocate: AllocateOption = Allocation.deadline,
    time_limit: LimitOption = 60.0,
    profile: ProfileOption = None,
    state: StateOption = None,
    output: OutputOption = None,
    policy: NodePolicy = defaults.POLICY,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write counts and latencies of all queries as JSON.")
    ] = None,
    duration: Annotated[str | None, typer.Option(metavar="T", help="Stop after this time, such as '10 s'.")] = None,
    memory: MemoryOption = defaults.MEMORY,
) -> None:
    """Place an app on nodes and start each of them as a process here, until the streams end, --duration is over, or
    Ctrl-C."""
    with exit_codes():
        from kigen.cli.node_commands import NodesArguments
        from kigen.cli.up_command import up_app

        up_app(
            NodesArguments(
                app_file, nodes, allocate.value, time_limit, profile, state, output, policy, duration, memory
            ),
            report,
        )


@app.command(epilog="Example:  kigen node office rooms.cql --nodes nodes.toml --output out")
def node(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which of the nodes this is.", show_default=False)],
    app_file: AppFile,
    nodes: NodesOption,
    allocate: AllocateOption = Allocation.deadline,
    time_limit: LimitOption = 60.0,
    profile: ProfileOption = None,
    state: StateOption = None,
    output: OutputOption = None,
    policy: NodePolicy = defaults.POLICY,
    duration: Annotated[str | None, typer.Option(metavar="T", help="Stop after this time, such as '10 s'.")] = None,
    memory: MemoryOption = defaults.MEMORY,
    replica: Annotated[int, typer.Option(metavar="0|1", help="1: the node's standby.", min=0, max=1)] = 0,
    together: Annotated[
        bool, typer.Option("--together", help="Let streams begin only when 'kigen up' says so.", hidden=True)
    ] = False,
) -> None:
    """Run one node of a placed app. Started again with the same --state, it goes on where it was."""
    with exit_codes():
        from kigen.cli.node_commands import NodesArguments, node_app

        node_app(
            name,
            NodesArguments(
                app_file, nodes, allocate.value, time_limit, profile, state, output, policy, duration, memory
            ),
            together,
            replica,
        )


@app.command(epilog="Example:  kigen status --nodes nodes.toml")
def status(
    nodes: NodesOption,
    format: Annotated[str, typer.Option(metavar="text|json", help="A table, or everything the nodes say.")] = "text",
    state: StateOption = None,
) -> None:
    """Show what each node is doing: its state, what it takes from and keeps for others, its queries."""
    with exit_codes():
        from kigen.cli.node_commands import show_status

        show_status(nodes, format, state)


@app.command()
def picture(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that --output wrote.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The PNG to write.")] = Path("lifetimes.png"),
    query: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these, in this order (may be repeated).")
    ] = None,
) -> None:
    """Draw results as a picture of lifetimes: one lane a value, a bar from birth to death."""
    with exit_codes():
        from kigen.cli.picture import draw_lifetimes

        drawn = draw_lifetimes(directory, out, query)
        typer.echo(f"{out}: {', '.join(drawn)}")


@app.command()
def warm(
    again: Annotated[bool, typer.Option("--again", help="Also if it was done before.")] = False,
) -> None:
    """Make Spark start in about half the time: runs a small app once and keeps what Java loads (some 170 MB in your
    cache directory)."""
    with exit_codes():
        from kigen.cli.warm_command import warm_spark

        warm_spark(again)


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def main() -> None:
    """Ends the process without taking the interpreter apart: DuckDB's bindings complain about objects that Spark's
    threads hold."""
    try:
        app(prog_name="kigen")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    else:
        code = 0
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
