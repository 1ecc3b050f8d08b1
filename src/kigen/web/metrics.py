"""Writes the figures of a run as Prometheus text (exposition format 0.0.4).

The names are part of the interface (docs/reference/http.md). Counters go on over a restart with a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kigen.web.served import Served

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS = {
    "in": "Tuples that committed batches have processed.",
    "out": "Result rows that committed batches have written.",
    "missed": "Tuples whose results came after the deadline.",
    "shed": "Tuples removed under FIRM or SHED.",
    "late": "Tuples that came later than LATENESS allows.",
    "skipped": "Bad rows left out under ON ERROR SKIP.",
    "dropped": "Tuples that had no room in BUFFER.",
}
_STREAM = {
    "taken": ("counter", "Tuples that the ingest queue has taken.", "kigen_stream_taken_total"),
    "refused": ("counter", "Batches that found no room, since the start.", "kigen_stream_refused_total"),
    "waiting": ("gauge", "Tuples that wait to be processed.", "kigen_stream_waiting_tuples"),
    "kept_bytes": ("gauge", "Bytes that the ingest queue keeps.", "kigen_stream_kept_bytes"),
}


def prometheus_text(served: Served) -> str:
    """Returns all figures now."""
    return "".join(f"{line}\n" for line in _lines(served))


def of_nodes(texts: Mapping[str, str]) -> str:
    """Joins the figures of nodes: each family once, each figure with the label `node`."""
    families: dict[str, tuple[list[str], list[str]]] = {}  # of a name: lines about it, figures
    for node, text in texts.items():
        label = _label(node=node)[1:-1]
        for line in text.splitlines():
            if line.startswith("#"):
                about, _ = families.setdefault(line.split(" ", 3)[2], ([], []))
                if line not in about:
                    about.append(line)
                continue
            name, brace, rest = line.partition("{")
            if not brace:
                name, _, value = line.partition(" ")
                rest = f"}} {value}"
            mine = f"{name}{{{label}{',' if not rest.startswith('}') else ''}{rest}"
            families.setdefault(name, ([], []))[1].append(mine)
    return "".join(f"{line}\n" for about, figures in families.values() for line in (*about, *figures))


def _lines(served: Served) -> Iterator[str]:
    report, progress = served.report_so_far(), served.progress
    yield from _family("kigen_flowing", "gauge", "Whether the streams flow.", [("", int(served.flows))])
    yield from _family("kigen_batches_total", "counter", "Committed batches.", [("", report["batches"])])
    queries: dict[str, dict[str, Any]] = report["queries"]
    for key, about in _COUNTERS.items():
        values = [(_label(query=name), found[key]) for name, found in queries.items()]
        yield from _family(f"kigen_query_{key}_total", "counter", about, values)
    latencies = [
        (_label(query=name, quantile=f"0.{percent}"), found["latency_ms"][f"p{percent}"] / 1000)
        for name, found in queries.items()
        for percent in (50, 95, 99)
        if found["latency_ms"][f"p{percent}"] is not None
    ]
    yield from _family(
        "kigen_query_latency_seconds", "gauge", "Quantiles from arrival to commit, since the start.", latencies
    )
    waiting = [(_label(query=n), q.waiting) for n, q in progress.queries.items() if q.waiting is not None]
    yield from _family("kigen_query_waiting_tuples", "gauge", "Tuples that wait for a batch.", waiting)
    deadlines = [
        (_label(query=name), found["deadline_ms"] / 1000)
        for name, found in queries.items()
        if found["deadline_ms"] is not None
    ]
    yield from _family("kigen_query_deadline_seconds", "gauge", "DEADLINE of the query.", deadlines)
    if served.ingest is not None:
        streams = served.ingest.status()
        for key, (kind, about, name) in _STREAM.items():
            yield from _family(name, kind, about, [(_label(stream=s), found[key]) for s, found in streams.items()])


def _family(name: str, kind: str, about: str, values: Sequence[tuple[str, float]]) -> Iterator[str]:
    if values:
        yield f"# HELP {name} {about}"
        yield f"# TYPE {name} {kind}"
        for label, value in values:
            yield f"{name}{label} {value}"


def _label(**labels: str) -> str:
    escaped = (
        f'{key}="{text}"'
        for key, value in labels.items()
        for text in [value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")]
    )
    return "{" + ",".join(escaped) + "}"
