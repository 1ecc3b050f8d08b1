"""Arguments and options that several commands share, with their help texts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

POLICY_HELP = (
    "How a live run chooses the tuples of the next round. "
    "pack: basic batches of many queries, the most urgent first, up to a length that keeps the shortest deadline. "
    "all: everything that waits, as plain Spark does. "
    "fifo, edf, taat, bts, bts1, ats, ats1: one query after another. "
    "For shared joins, whose work is cut into slices: mqt (first the slices that answer most queries for their work), "
    "mandf, admandf (as mqt, but fifo while BUFFER is about to drop much), salvage (gives up the ranges that could "
    "not be finished before BUFFER drops them). "
    "Settings follow a colon: ats:kp=1,ki=10,phi=100ms, mandf:beta=0.1, admandf:ahead=400, mqt:length=500ms."
)
DURABILITY_HELP = (
    "What committed results and state survive. power: a power cut, because every batch is synced to the disk. "
    "process: the end of the process; a power cut may lose the last seconds."
)


EPOCH_HELP = (
    "How long an epoch of live streams lasts, for example '30 s' or '500 ms'. Inside it, Kigen works in rounds of "
    "milliseconds; Spark commits the state at its end. 0: every round is a micro-batch of its own."
)


class PlanFormat(StrEnum):
    text = "text"
    json = "json"
    mermaid = "mermaid"


class Allocation(StrEnum):
    deadline = "deadline"
    sqpr = "sqpr"


AppFile = Annotated[
    Path,
    typer.Argument(metavar="APP", help="The app file, with CREATE STREAM and CREATE QUERY.", show_default=False),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Give a parameter ($NAME) of the app a value. May be repeated."),
]
Duration = Annotated[
    str | None, typer.Option("--duration", metavar="T", help="Stop after this time, for example '10 s' or '5 min'.")
]
Epoch = Annotated[str, typer.Option("--epoch", metavar="T", help=EPOCH_HELP)]
Lanes = Annotated[
    int | None,
    typer.Option(
        "--lanes",
        metavar="N",
        min=1,
        help="How many rounds run at once. Each lane holds a slot of Spark.",
        show_default="one per core",
    ),
]
NoChange = Annotated[
    bool,
    typer.Option(
        "--no-change", help="Refuse a checkpoint of another app. Otherwise a changed app continues: see plan-change."
    ),
]
ReplayFrom = Annotated[
    str | None,
    typer.Option(
        "--replay-from",
        metavar="TIME",
        help="If the app has changed: let added queries see older tuples, from this time on (ISO 8601), where the "
        "sources keep them.",
        show_default="now",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="PATH|FUNCTION",
        help="With --serve: what 'kigen add' and 'kigen change' may name beside what the app names: a path (and what "
        "is below it), a function as module:function, or an environment variable as '$NAME'. May be repeated.",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory that all workers of the run may use together: 4GB, 512MB, or a share of the machine such as 50%.",
    ),
]
Serve = Annotated[
    str | None,
    typer.Option(
        "--serve",
        metavar="[HOST:PORT]",
        help="Serve the run over HTTP: POST /streams/NAME, /metrics, /health and a page. Port 0 takes any free port. "
        "Without an address: 127.0.0.1:8642. Needs the extra 'web'.",
        show_default=False,
    ),
]
KeepResults = Annotated[
    str | None,
    typer.Option(
        "--keep-results",
        metavar="T",
        help="With --serve: how long a reader of changes may be away and still continue, for example '1 h'.",
        show_default="10 min",
    ),
]
NodesFileOption = Annotated[
    Path,
    typer.Option(
        "--nodes", metavar="FILE", help="The nodes file (TOML): nodes, addresses and bandwidths.", show_default=False
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Where nodes keep queues, checkpoints and the token.",
        show_default="the nodes file's name with .state",
    ),
]
NodeOutput = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="DIR", help="Also write each query to DIR/<query>.csv, on the node that gives its results."
    ),
]
NodePolicy = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="How nodes choose the next round: see 'kigen run --help'.")
]
Allocate = Annotated[
    Allocation,
    typer.Option(
        "--allocate",
        help="How operators are placed. deadline: so that all deadlines hold. "
        "sqpr: by traffic and load only, as the SQPR planner does.",
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit", metavar="SECONDS", help="Time for the placement; then the best one found is used.", min=1
    ),
]
ProfileFile = Annotated[
    Path | None,
    typer.Option(
        "--profile", metavar="FILE", help="Take costs and rates from this report of an earlier 'kigen run --report'."
    ),
]
