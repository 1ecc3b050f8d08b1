"""The command `kigen`: parses arguments, calls a command's module and ends with its exit code.

Exit codes: 0 done; 1 the run failed; 2 the app file or the arguments are wrong. Spark is imported only by the commands
that need it, so `kigen check` answers at once.
"""

from __future__ import annotations

import atexit
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from kigen.cli import options
from kigen.cli.changes.commands import add_change_commands
from kigen.cli.exits import exit_codes
from kigen.cli.lab_commands import add_lab_commands
from kigen.cli.optional_value import ServeCommand
from kigen.cli.options import Allocation, PlanFormat
from kigen.cli.shell.command import add_shell_command
from kigen.engine import defaults

EXAMPLE = """
An app file declares streams and queries:\n
\b
  CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
    FROM csv (path = 'readings.csv');
  CREATE QUERY hot DEADLINE 2 SECONDS AS
    SELECT room, AVG(temp) AS mean FROM readings [RANGE 10 SECONDS] GROUP BY room;\n
\b
  kigen check rooms.cql                         show all errors of the file
  kigen explain rooms.cql                       show the plan as a tree
  kigen run rooms.cql --drain --output out      process all of readings.csv; results in out/hot.csv
"""

app = typer.Typer(
    name="kigen",
    help="Run continuous queries with deadlines on Spark. Queries are CQL; results are rows with lifetimes.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_lab_commands(app)
add_change_commands(app)
add_shell_command(app)


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
    """Run continuous queries with deadlines on Spark. Queries are CQL; results are rows with lifetimes."""


@app.command(cls=ServeCommand, epilog="Example:  kigen run rooms.cql --drain --output out --report report.json")
def run(
    app_file: options.AppFile,
    drain: Annotated[
        bool,
        typer.Option("--drain", help="Process everything that finite sources hold, in event-time order, then exit."),
    ] = defaults.DRAIN,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each query to DIR/<query>.csv.")
    ] = None,
    lifetime: Annotated[
        str,
        typer.Option(
            metavar="dt|nt",
            help="How operators learn of deaths. dt: each tuple carries its death. nt: a negative tuple follows it.",
        ),
    ] = defaults.LIFETIME,
    policy: Annotated[str, typer.Option(metavar="NAME", help=options.POLICY_HELP)] = defaults.POLICY,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark master, for example spark://host:7077.", show_default="local[*]"),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep state here. After a stop or a kill, the same command continues."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write counts and latencies of each query as JSON.")
    ] = None,
    duration: options.Duration = None,
    memory: options.Memory = defaults.MEMORY,
    durability: Annotated[
        str, typer.Option(metavar="power|process", help=options.DURABILITY_HELP)
    ] = defaults.DURABILITY,
    serve: options.Serve = None,
    epoch: options.Epoch = f"{defaults.EPOCH_S:g} s",
    lanes: options.Lanes = None,
    keep_results: options.KeepResults = None,
    settings: options.Set = None,
    no_change: options.NoChange = False,
    replay_from: options.ReplayFrom = None,
    allow: options.Allow = None,
) -> None:
    """Run an app until its sources end, --duration is over, or Ctrl-C."""
    with exit_codes():
        from kigen.cli.run_command import RunArguments, run_app

        arguments = RunArguments(
            app_file,
            drain,
            output,
            lifetime,
            policy,
            master,
            checkpoint,
            report,
            duration,
            memory,
            durability,
            serve,
            epoch,
            lanes,
            keep_results,
            tuple(settings or ()),
            no_change,
            replay_from,
            tuple(allow or ()),
        )
        run_app(arguments)


@app.command("dry-run", hidden=True)
@app.command(epilog="Example:  kigen check rooms.cql")
def check(
    app_file: options.AppFile,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also check the files that 'kigen run --output DIR' would write.")
    ] = None,
    settings: options.Set = None,
) -> None:
    """Show all errors of an app file, and warnings about costly queries. Does not start Spark."""
    with exit_codes():
        from kigen.cli.loading import load, warn, warnings_of

        loaded = load(app_file, output, settings or ())
        found = warnings_of(loaded, app_file, settings or ())
        warn(found)
        counts = (
            f"{_plural(len(loaded.streams), 'stream')}, {_plural(len(loaded.queries), 'query', 'queries')}, no errors"
        )
        warnings = f", {_plural(len(found), 'warning')}" if found else ""
        typer.echo(f"{app_file}: {counts}{warnings}")


@app.command(epilog="Example:  kigen describe data/readings.csv")
def describe(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A csv, JSON lines or parquet file, a file with DESCRIBE statements, or a connector: "
            "\"kafka (brokers = 'host:9092', topic = 'cars')\".",
        ),
    ],
) -> None:
    """Propose the CREATE STREAM for a file or a topic: types, the timestamp column, LATENESS. Does not start Spark."""
    with exit_codes():
        from kigen.cli.describe_command import proposals

        typer.echo(proposals(what), nl=False)


@app.command(epilog="Example:  kigen explain rooms.cql --nodes nodes.toml --picture placement.png")
def explain(
    app_file: options.AppFile,
    format: Annotated[
        PlanFormat, typer.Option(help="text: a tree. json: for programs. mermaid: a diagram for Markdown.")
    ] = PlanFormat.text,
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Place the plan on the nodes of this file. Needs kigen\\[nodes]."),
    ] = None,
    profile: options.ProfileFile = None,
    allocate: options.Allocate = Allocation.deadline,
    time_limit: options.TimeLimit = 60.0,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="With --nodes: also draw the placement. Needs kigen\\[picture]."),
    ] = None,
    settings: options.Set = None,
) -> None:
    """Show the plan of an app: streams, operators, tasks, and what queries share.

    With --nodes, also show which operator runs on which node, and by when it must be done.
    """
    with exit_codes():
        if nodes is not None:
            from kigen.cli.nodes.explain_command import explain_nodes

            given = tuple(settings or ())
            text = explain_nodes(app_file, nodes, profile, allocate.value, time_limit, format.value, picture, given)
            typer.echo(text, nl=False)
            return
        from kigen.cli.loading import parameters
        from kigen.engine.apps import explain as explain_app

        typer.echo(explain_app(app_file, format=format.value, params=parameters(settings or ())))


@app.command(cls=ServeCommand, epilog="Example:  kigen up rooms.cql --nodes nodes.toml --output out")
def up(
    app_file: options.AppFile,
    nodes: options.NodesFileOption,
    allocate: options.Allocate = Allocation.deadline,
    time_limit: options.TimeLimit = 60.0,
    profile: options.ProfileFile = None,
    state: options.State = None,
    output: options.NodeOutput = None,
    policy: options.NodePolicy = defaults.POLICY,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write counts and latencies of all queries as JSON.")
    ] = None,
    duration: options.Duration = None,
    memory: options.Memory = defaults.MEMORY,
    settings: options.Set = None,
    no_change: options.NoChange = False,
    serve: options.Serve = None,
    keep_results: options.KeepResults = None,
) -> None:
    """Place an app on nodes and run every node as a process on this machine. Needs kigen\\[nodes].

    Ends when the streams end, when --duration is over, or with Ctrl-C. A node that is killed is started again.
    """
    with exit_codes():
        from kigen.cli.nodes.placing import NodesArguments
        from kigen.cli.nodes.up_command import up_app

        up_app(
            NodesArguments(
                app_file,
                nodes,
                allocate.value,
                time_limit,
                profile,
                state,
                output,
                policy,
                duration,
                memory,
                tuple(settings or ()),
                no_change,
                serve,
                keep_results,
            ),
            report,
        )


@app.command(cls=ServeCommand, epilog="Example:  kigen node office rooms.cql --nodes nodes.toml --output out")
def node(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node to run.", show_default=False)],
    app_file: options.AppFile,
    nodes: options.NodesFileOption,
    allocate: options.Allocate = Allocation.deadline,
    time_limit: options.TimeLimit = 60.0,
    profile: options.ProfileFile = None,
    state: options.State = None,
    output: options.NodeOutput = None,
    policy: options.NodePolicy = defaults.POLICY,
    duration: options.Duration = None,
    memory: options.Memory = defaults.MEMORY,
    settings: options.Set = None,
    serve: options.Serve = None,
    keep_results: options.KeepResults = None,
    replica: Annotated[
        int, typer.Option(metavar="0|1", help="Which replica of a node with a standby to run.", min=0, max=1)
    ] = 0,
    together: Annotated[
        bool, typer.Option("--together", help="Wait for 'kigen up' before streams begin.", hidden=True)
    ] = False,
) -> None:
    """Run one node of a placed app. Started again with the same --state, it continues."""
    with exit_codes():
        from kigen.cli.nodes.node_command import node_app
        from kigen.cli.nodes.placing import NodesArguments

        node_app(
            name,
            NodesArguments(
                app_file,
                nodes,
                allocate.value,
                time_limit,
                profile,
                state,
                output,
                policy,
                duration,
                memory,
                tuple(settings or ()),
                serve=serve,
                keep_results=keep_results,
            ),
            together,
            replica,
        )


@app.command(epilog="Example:  kigen status --nodes nodes.toml")
def status(
    nodes: options.NodesFileOption,
    format: Annotated[
        str, typer.Option(metavar="text|json", help="text: two tables. json: everything that the nodes report.")
    ] = "text",
    state: options.State = None,
) -> None:
    """Ask all nodes of a running app what they are doing: state, role, queries, queues and their readers."""
    with exit_codes():
        from kigen.cli.nodes.status_command import show_status

        show_status(nodes, format, state)


@app.command(epilog="Example:  kigen picture out --out lifetimes.png --query hot")
def picture(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that 'kigen run --output DIR' wrote.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The PNG file to write.")] = Path("lifetimes.png"),
    query: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Draw only this query. Repeat it for several, in order.")
    ] = None,
) -> None:
    """Draw the lifetimes of results: a lane per value, a bar from birth to death. Needs kigen\\[picture]."""
    with exit_codes():
        from kigen.cli.pictures.lifetimes import draw_lifetimes

        drawn = draw_lifetimes(directory, out, query)
        typer.echo(f"{out}: {', '.join(drawn)}")


@app.command(epilog="Example:  kigen fmt rooms.cql")
def fmt(
    files: Annotated[list[Path], typer.Argument(metavar="APP...", help="App files.", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file is not in the usual layout.")
    ] = False,
) -> None:
    """Write app files in the usual layout: clauses begin a line, keywords are in capitals. Comments stay."""
    with exit_codes():
        from kigen.cli.format_command import format_files

        changed = format_files(files, write=not check)
        for path in changed:
            typer.echo(f"{path} {'is not in the usual layout' if check else 'formatted'}")
    if check and changed:
        raise typer.Exit(1)


@app.command(epilog="Example:  kigen init rooms")
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to write it.", show_default="the current directory")
    ] = Path(),
) -> None:
    """Write a small project that runs: an app, its data, a test and a README."""
    with exit_codes():
        from kigen.cli.init_command import init_project

        for path in init_project(directory):
            typer.echo(f"wrote {path}")
        typer.echo(f"\nNext:  cd {directory} && kigen run app.cql --set limit=22 --drain --output out")


@app.command()
def warm(
    again: Annotated[bool, typer.Option("--again", help="Write the archive again, even if there is one.")] = False,
) -> None:
    """Make later starts of Spark take about half the time.

    Runs a small app once and keeps the classes that Java loaded: about 170 MB in your cache directory.
    """
    with exit_codes():
        from kigen.cli.warm_command import warm_spark

        warm_spark(again)


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def main() -> None:
    """Runs the command, then ends the process without finalising the interpreter.

    DuckDB's bindings would complain about objects that Spark's threads still hold.
    """
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
