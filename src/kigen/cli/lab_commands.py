"""Adds the commands of the laboratory, `kigen bench` and `kigen reproduce`, if it is installed.

The product never imports the laboratory: `kigen-lab` registers itself as an entry point of the group `kigen.commands`.
"""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

GROUP = "kigen.commands"
MISSING = "kigen {name} is part of the laboratory, which is not installed; run: pip install 'kigen[lab]'"
_SUMMARIES = {
    "bench": "Benchmarks as tables, JSON and pictures. Needs kigen[lab].",
    "reproduce": "Make a paper's figure as PNG and JSON. Needs kigen[lab].",
}


def add_lab_commands(app: typer.Typer) -> None:
    """Each entry point is a function that takes the Typer app and adds one command to it."""
    installed = {point.name: point for point in entry_points(group=GROUP)}
    for name, summary in _SUMMARIES.items():
        if name in installed:
            installed[name].load()(app)
        else:
            _add_missing(app, name, summary)


def _add_missing(app: typer.Typer, name: str, summary: str) -> None:
    @app.command(name, help=summary, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def missing(context: typer.Context) -> None:
        typer.echo(MISSING.format(name=name), err=True)
        raise typer.Exit(2)
