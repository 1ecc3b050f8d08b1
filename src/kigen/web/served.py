"""What the server needs to know of a run. `kigen.engine.Run` has it; tests have a stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kigen.connectors.changes_log import ChangesLog
from kigen.engine.changes.live import LiveChanges
from kigen.engine.ingest import Ingest
from kigen.engine.progress import Progress
from kigen.plan.logical import App


class Served(Protocol):
    """A run, as its server sees it. Everything may be called from any thread."""

    @property
    def app(self) -> App: ...

    @property
    def ingest(self) -> Ingest | None: ...

    @property
    def followed(self) -> Mapping[str, ChangesLog]: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def flows(self) -> bool:
        """Whether Spark asks for batches and the run has not ended."""
        ...

    @property
    def changes(self) -> LiveChanges: ...

    def report_so_far(self) -> dict[str, Any]: ...
