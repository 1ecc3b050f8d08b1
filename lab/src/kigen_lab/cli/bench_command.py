"""`kigen bench NAME`: runs a benchmark and shows its result as tables, JSON and a picture."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from kigen_lab.bench.registry import BENCHMARKS


class BenchGroup(TyperGroup):
    """Names all benchmarks if the one that was asked for does not exist."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None:
            ctx.fail(f"no benchmark '{cmd_name}': there is {', '.join(self.list_commands(ctx))}")
        return found


bench = typer.Typer(
    cls=BenchGroup,
    help="Run a benchmark: prints a table, writes all numbers as JSON, and draws a picture.",
    no_args_is_help=True,
)
for benchmark in BENCHMARKS:
    benchmark.add_to(bench)
