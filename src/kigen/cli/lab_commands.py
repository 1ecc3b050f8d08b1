"""Adds `kigen bench` and `kigen reproduce`, which are part of the lab (the distribution `kigen-lab`).

The product never imports the lab. The lab registers its commands as entry points of the group `kigen.commands`. Without
it, both commands say what to install.
"""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

GROUP = "kigen.commands"
_SUMMARIES = {
    "bench": "Run a benchmark. Needs kigen\\[lab].",
    "reproduce": "Reproduce a figure of a paper. Needs kigen\\[lab].",
}


def add_lab_commands(app: typer.Typer) -> None:
    """Calls each entry point with the Typer app; it adds one command. Adds a stand-in for each that is missing."""
    installed = {point.name: point for point in entry_points(group=GROUP)}
    for name, summary in _SUMMARIES.items():
        if name in installed:
            installed[name].load()(app)
        else:
            _add_stand_in(app, name, summary)


def _add_stand_in(app: typer.Typer, name: str, summary: str) -> None:
    @app.command(name, help=summary, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def stand_in(context: typer.Context) -> None:
        typer.echo(
            f"error: kigen {name} is part of the lab, which is not installed; run: pip install 'kigen[lab]'", err=True
        )
        raise typer.Exit(2)
