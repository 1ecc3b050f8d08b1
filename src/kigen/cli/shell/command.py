"""Adds the command `kigen shell`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kigen.cli import options
from kigen.cli.exits import exit_codes


def add_shell_command(app: typer.Typer) -> None:
    """Adds the command to the Typer app."""
    app.command("shell", epilog="Example:  echo 'hot;' | kigen shell rooms.cql")(shell)


def shell(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[APP|URL]", help="An app file, or the address of a running app.", show_default=False),
    ] = None,
    token: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For a running app: the file with its token, serve/token of its checkpoint."),
    ] = None,
    settings: options.Set = None,
) -> None:
    """Enter statements and queries, against an app file or a running app. Does not start Spark.

    A query over a file reads all that its sources hold, as --drain does, and shows rows with their lifetimes. A query
    against a running app reads the rows that are true now.
    """
    with exit_codes():
        from kigen.cli.loading import parameters
        from kigen.cli.shell.app_session import AppSession
        from kigen.cli.shell.loop import run_shell
        from kigen.cli.shell.served_session import ServedSession
        from kigen.engine.errors import AppNotFound

        if target is not None and target.startswith(("http://", "https://")):
            code = run_shell(ServedSession(target, token))
        else:
            if target is not None and not Path(target).is_file():
                raise AppNotFound(f"{target}: no such app file")
            code = run_shell(AppSession(None if target is None else Path(target), parameters(settings or ())))
    if code:
        raise typer.Exit(code)
