"""Adds the lab's commands to `kigen`. lab/pyproject.toml names these functions as entry points."""

from __future__ import annotations

import typer

from kigen_lab.cli.bench_command import bench
from kigen_lab.cli.reproduce_command import ListedFigures, reproduce


def add_bench(app: typer.Typer) -> None:
    app.add_typer(bench, name="bench")


def add_reproduce(app: typer.Typer) -> None:
    app.command(cls=ListedFigures)(reproduce)
