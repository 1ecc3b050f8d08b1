"""Changes of queries that readers follow while a run goes on: who gives them, and where they are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from kigen.connectors.changes_log import ChangesLog
from kigen.engine.preparation import of_change
from kigen.plan.logical import CHANGES, App
from kigen.spark.sink.output_writer import Outputs

FOLDER = "changes"  # below a checkpoint


def with_changes(app: App) -> App:
    """Returns the app with changes of every query, beside what INTO takes."""
    given = (q if CHANGES in q.gives or q.sent else replace(q, also=(*q.also, CHANGES)) for q in app.queries)
    return replace(app, queries=tuple(given))


def open_changes(app: App, checkpoint: Path, keep_s: float, outputs: Outputs) -> dict[str, ChangesLog]:
    """Adds a log of changes to the outputs of each query. Returns the logs by query."""
    logs: dict[str, ChangesLog] = {}
    for query in app.queries:
        if not query.sent:
            folder = checkpoint / FOLDER / quote(query.name, safe="")
            log = logs[query.name] = ChangesLog(folder, query.schema, query.root.is_stream, keep_s)
            log.added_by = query.added_by
            outputs.setdefault(query.gives[CHANGES], []).append(
                (f"{query.name} changes{of_change(query.added_by)}", log)
            )
    return logs
