"""The page at `/`: queries and streams with their figures, as one small file without foreign resources."""

from __future__ import annotations

from html import escape
from typing import Any

from kigen.web.served import Served

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:1rem 0}th,td{padding:.25rem .8rem;border-bottom:1px solid #ddd}"
    "td{text-align:right;font-variant-numeric:tabular-nums}th,td:first-child{text-align:left}"
)
_QUERY_COLUMNS = ("in", "out", "missed", "shed", "late", "dropped")


def page_of(served: Served) -> str:
    """Returns the page with the figures of now. The browser asks again every two seconds."""
    report, progress = served.report_so_far(), served.progress
    head = ["query", *_QUERY_COLUMNS, "waiting", "deadline ms", "p50 ms", "p95 ms", "p99 ms"]
    rows = [
        [
            name,
            *(found[key] for key in _QUERY_COLUMNS),
            progress.queries[name].waiting,
            found["deadline_ms"],
            *(found["latency_ms"][p] for p in ("p50", "p95", "p99")),
        ]
        for name, found in report["queries"].items()
    ]
    streams = "" if served.ingest is None else _streams(served.ingest.status())
    state = "flowing" if served.flows else "not flowing"
    about = f"{state}, {report['batches']:,} batches, policy {report['policy']}"
    return whole(about, table(head, rows) + streams)


def whole(about: str, body: str) -> str:
    """Returns a page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
        f"<title>Kigen</title><style>{_STYLE}</style></head><body><h1>Kigen</h1>"
        f"<p>{escape(about)}</p>{body}</body></html>"
    )


def _streams(status: dict[str, dict[str, Any]]) -> str:
    keys = ("taken", "waiting", "refused", "kept_bytes")
    return table(["pushed stream", *keys], [[name, *(found[k] for k in keys)] for name, found in status.items()])


def table(head: list[str], rows: list[list[Any]]) -> str:
    """Returns a table."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><tr>{titles}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int | float) else escape(str(value))
