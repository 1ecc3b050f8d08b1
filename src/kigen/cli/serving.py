"""What commands with `--serve` share: the packages that it needs, for how long changes are kept, and what is said."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from kigen.connectors.options import duration_us
from kigen.engine.errors import ArgumentError

if TYPE_CHECKING:
    from kigen.web import WebServer

KEEP_RESULTS = "10 min"


def web() -> ModuleType:
    """Returns `kigen.web`. Raises ArgumentError if its packages are missing."""
    try:
        import kigen.web
    except ImportError as error:
        raise ArgumentError(
            f"--serve needs packages that are not installed ({error}); run: pip install 'kigen[web]'"
        ) from error
    return kigen.web


def kept_changes_s(serve: str | None, keep_results: str | None) -> float | None:
    """Returns for how long readers of changes may be away; None: nobody can follow them."""
    if keep_results is not None and serve is None:
        raise ArgumentError("--keep-results is for readers of changes over HTTP: add --serve")
    return None if serve is None else duration_us("kigen", "--keep-results", keep_results or KEEP_RESULTS) / 1e6


def say_where(server: WebServer) -> None:
    sys.stderr.write(f"serving {server.url} (token: {server.access.token_file})\n")
    sys.stderr.write(f"the page, once: {server.page_link}\n")
    if not server.is_loopback:
        sys.stderr.write(f"warning: {server.address} is not loopback, and HTTP is not encrypted: use a TLS proxy\n")
