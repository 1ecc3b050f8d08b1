"""Progress of a run, and the thread that reports it to a listener.

Invariant: a listener is called from one thread only, and nothing that it raises ends the run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

_log = logging.getLogger("kigen")
_LAST_CALL_S = 5.0  # how long the end of a run waits for a listener that does not return


@dataclass(frozen=True)
class QueryProgress:
    """Progress of one query.

    Attributes:
        arrived: Tuples that committed batches have processed.
        out: Result rows that committed batches have written.
        waiting: Tuples in the queue of the query's task when the last batch was admitted. None: nothing is queued.
        p95_ms: 95th percentile of the latency so far.
        deadline_ms: The query's DEADLINE.
        sdmr: Share of tuples that missed the deadline.
    """

    arrived: int
    out: int
    waiting: int | None
    p95_ms: float | None
    deadline_ms: float | None
    sdmr: float


@dataclass(frozen=True)
class Progress:
    """Progress of a run, as `on_progress` and `Run.progress` give it.

    Attributes:
        fraction: How much of the finite inputs is processed, from 0 to 1. None: some input has no end.
        batches: Number of committed batches.
        queries: Progress of each query, by name.
        live: Whether tuples arrive as time passes and a policy admits them.
        policy: Name of the policy.
        k: Basic batches in a scheduling batch, for policies that have such a number.
        overloaded: Whether the policy finds more work than fits the deadlines.
        doing: What the running batch is doing, such as "query hot: join on id = id".
        read: Tuples that the running batch has processed; they are not in `queries` yet.
        reached_us: Event time that the running batch has reached, in microseconds since 1970.
        memory: Bytes that the workers on this machine use.

    >>> seen = []
    >>> result = engine.run("rooms.cql", drain=True, on_progress=seen.append)
    >>> seen[-1].fraction, seen[-1].queries["hot"].arrived
    (1.0, 4)
    """

    fraction: float | None
    batches: int
    queries: dict[str, QueryProgress]
    live: bool = False
    policy: str = ""
    k: int | None = None
    overloaded: bool = False
    doing: str | None = None
    read: int = 0
    reached_us: int | None = None
    memory: int = 0


class ProgressThread:
    """Calls a listener every few seconds, and once more when it is closed."""

    def __init__(self, listener: Callable[[Progress], None], progress: Callable[[], Progress], every_s: float) -> None:
        self._listener, self._progress, self._every_s = listener, progress, every_s
        self._ended = threading.Event()
        self._error_reported = False
        self._thread = threading.Thread(target=self._run, name="kigen-progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Makes the last call and waits for it. A listener may call this too, by ending the run."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_LAST_CALL_S)

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self._call()
        self._call()

    def _call(self) -> None:
        try:
            self._listener(self._progress())
        except Exception:
            if not self._error_reported:
                self._error_reported = True
                _log.warning("on_progress raised an error; the run continues and hides later ones", exc_info=True)
