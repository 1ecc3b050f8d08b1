"""Adds the commands for apps that change: `kigen plan-change`, `add`, `drop`, `change` and `save`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kigen.cli import options
from kigen.cli.exits import exit_codes

At = Annotated[
    str,
    typer.Option("--at", metavar="HOST:PORT", help="Where 'kigen run --serve' serves the app.", show_default=False),
]
Token = Annotated[
    Path | None,
    typer.Option("--token", metavar="FILE", help="The file with the app's token: serve/token of its checkpoint."),
]
Plan = Annotated[bool, typer.Option("--plan", help="Show what would change, and change nothing.")]
Format = Annotated[str, typer.Option(metavar="text|json", help="text: a table. json: for programs.")]


def add_change_commands(app: typer.Typer) -> None:
    """Adds the commands to the Typer app."""
    app.command("plan-change", epilog="Example:  kigen plan-change rooms.cql --checkpoint state")(plan_change)
    where = "--at 127.0.0.1:8642 --token state/serve/token"
    app.command("add", epilog=f"Example:  kigen add alarm.cql {where}")(add)
    app.command("drop", epilog=f"Example:  kigen drop hot {where}")(drop)
    app.command("change", epilog=f"Example:  kigen change rooms.cql {where}")(change)
    app.command("save", epilog="Example:  kigen save saved --checkpoint state")(save)


def plan_change(
    app_file: options.AppFile,
    checkpoint: Annotated[
        Path, typer.Option(metavar="DIR", help="The checkpoint of the app that ran before.", show_default=False)
    ],
    format: Format = "text",
    replay_from: options.ReplayFrom = None,
    settings: options.Set = None,
) -> None:
    """Show what 'kigen run' with a changed app would do with a checkpoint. Changes nothing, does not start Spark.

    A query is kept if its clauses and those of its streams are the same. Otherwise it is dropped and added.
    """
    with exit_codes():
        from kigen.cli.changes.plan_change import shown_change

        typer.echo(shown_change(app_file, checkpoint, format, replay_from, settings or ()), nl=False)


def add(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Statements to add; -: standard input.", show_default=False)
    ],
    at: At,
    token: Token = None,
    plan: Plan = False,
    replay_from: options.ReplayFrom = None,
    format: Format = "text",
    settings: options.Set = None,
) -> None:
    """Add statements to a running app, at the end of an epoch. The other queries keep their state and their lines."""
    _with_text("add", file, at, token, plan, replay_from, format, settings)


def change(
    app_file: Annotated[
        str, typer.Argument(metavar="APP|-", help="The changed app; -: standard input.", show_default=False)
    ],
    at: At,
    token: Token = None,
    plan: Plan = False,
    replay_from: options.ReplayFrom = None,
    format: Format = "text",
    settings: options.Set = None,
) -> None:
    """Give a running app another text, at the end of an epoch: what is the same is kept, the rest dropped or added.

    Relative paths start at the directory of the app file with which the run was started.
    """
    _with_text("change", app_file, at, token, plan, replay_from, format, settings)


def drop(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Queries to drop.", show_default=False)],
    at: At,
    token: Token = None,
    plan: Plan = False,
    format: Format = "text",
) -> None:
    """Drop queries of a running app, at the end of an epoch. Their state goes, their output stays."""
    with exit_codes():
        from kigen.cli.changes.live import ask, shown
        from kigen.cli.changes.served_app import ServedApp

        answer = ask(ServedApp(at, token), "drop", {"queries": queries, "plan": plan})
        typer.echo(shown(answer, format), nl=False)


def save(
    to: Annotated[
        str, typer.Argument(metavar="TO", help="The folder to write; it must not exist.", show_default=False)
    ],
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The checkpoint of an app that does not run.", show_default=False)
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="HOST:PORT", help="Where 'kigen run --serve' serves the app.", show_default=False),
    ] = None,
    token: Token = None,
) -> None:
    """Save an app: write a folder from which 'kigen run APP --checkpoint TO' continues, here or on another machine.

    Files that the app reads, and outputs, are not in it.
    """
    with exit_codes():
        from kigen.cli.changes.save import saved

        typer.echo(saved(to, checkpoint, at, token), nl=False)


def _with_text(
    action: str,
    file: str,
    at: str,
    token: Path | None,
    plan: bool,
    replay_from: str | None,
    format: str,
    settings: list[str] | None,
) -> None:
    with exit_codes():
        from kigen.cli.changes.live import ask_with_text, shown
        from kigen.cli.changes.served_app import ServedApp

        answer = ask_with_text(ServedApp(at, token), action, file, settings or (), replay_from, plan)
        typer.echo(shown(answer, format), nl=False)
