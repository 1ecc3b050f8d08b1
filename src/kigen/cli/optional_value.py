"""Lets `--serve` stand with or without an address.

Click would take the word after `--serve` for its value, whatever it is. Here it is the value only if it looks like an
address, so `kigen run --serve rooms.cql` works.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

OPTION = "--serve"
DEFAULT_ADDRESS = "127.0.0.1:8642"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^\s:/\\]+):\d{1,5}")


class ServeCommand(TyperCommand):
    """A command with `--serve [HOST:PORT]`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_address(args))


def with_address(args: list[str]) -> list[str]:
    """Returns the arguments with the default address after a `--serve` that has none."""
    end = args.index("--") if "--" in args else len(args)
    found: list[str] = []
    for place, word in enumerate(args):
        found.append(word)
        following = args[place + 1] if place + 1 < end else ""
        if word == OPTION and place < end and not _ADDRESS.fullmatch(following):
            found[-1] = f"{OPTION}={DEFAULT_ADDRESS}"
    return found
