"""Adds the laboratory's commands to the command `kigen`; named as entry points in lab/pyproject.toml."""

from __future__ import annotations

import typer

from kigen_lab.cli.bench_command import bench
from kigen_lab.cli.reproduce_command import ListedFigures, reproduce


def add_bench(app: typer.Typer) -> None:
    app.add_typer(bench, name="bench")


def add_reproduce(app: typer.Typer) -> None:
    app.command(cls=ListedFigures)(reproduce)
