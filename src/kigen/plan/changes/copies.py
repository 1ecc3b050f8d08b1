"""Makes copies of streams for queries that a change of the app adds: a copy reads the same source from its own place.

Other queries read the stream itself, at their own position. Invariant: no declared stream has the name of a copy. What
a stream drops goes to its own outputs only, so rows of bad or late tuples are not written twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kigen.plan.connectors.registry import connector_named
from kigen.plan.logical import LINK, PlanNode, Query, Scan, SourceStream
from kigen.plan.rebuild import with_children


def copy_of(stream: SourceStream, change: int, taken: Collection[str], since_us: int | None = None) -> SourceStream:
    """Returns a copy of a stream, without the tuples before `since_us`."""
    name = f"{stream.name}~{change}"
    while name in taken:
        name += "~"
    source = stream.source
    if since_us is not None and source.name == "kafka":  # the broker finds the place
        options = {**dict(source.options), "start": iso_text(since_us)}
        source = replace(source, options=tuple(options.items()))
    shed = None if stream.shed is None else replace(stream.shed, into=None)
    return replace(
        stream,
        name=name,
        source=source,
        shed=shed,
        error_into=None,
        late_into=None,
        copy_of=stream.copy_of or stream.name,
        since_us=since_us,
        added_by=change,
    )


def reading(query: Query, names: Mapping[str, str]) -> Query:
    """Returns the query with the streams in `names` replaced."""
    done: dict[PlanNode, PlanNode] = {}

    def changed(node: PlanNode) -> PlanNode:
        if node not in done:
            if isinstance(node, Scan):
                done[node] = replace(node, stream=names.get(node.stream, node.stream))
            else:
                done[node] = with_children(node, changed)
        return done[node]

    return query if not set(query.streams) & set(names) else replace(query, root=changed(query.root))


def can_replay(stream: SourceStream) -> bool:
    """Whether the source of a stream keeps older tuples. Senders push those of others, and they are trimmed."""
    spec = connector_named(stream.source.name)
    return stream.source.name != LINK and spec is not None and not spec.is_pushed


def iso_text(at_us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")
