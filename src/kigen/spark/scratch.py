"""Files through which the reader's process and the command's process communicate, on the driver's machine.

Invariant: each file is replaced by a rename, never written in place. Losing a file costs only time.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import replace


@dataclass(frozen=True)
class Committed:
    """What the sink reports about the last batch. The names of the fields are keys of the JSON file."""

    seq: int = -1
    at_us: int = 0
    # task -> when the passing of time will change a result
    next_events_us: dict[str, int | None] = field(default_factory=dict)
    elapsed_us: int | None = None  # how long a round took its worker, and each task of it; None: not measured there
    task_us: dict[str, float] | None = None
    recording_us: float = 0.0  # how long the sink needs to record a round


class Scratch:
    """The scratch directory of a run."""

    def __init__(self, directory: str) -> None:
        self._committed = Path(directory) / "committed"
        self._policy = Path(directory) / "policy"
        self._error = Path(directory) / "error"
        self._closing = Path(directory) / "closing"
        self._stopping = Path(directory) / "stopping"
        self._reading = Path(directory) / "reading"
        self._holding = Path(directory) / "holding"
        self._lanes_ready = Path(directory) / "lanes-ready"
        self._outputs_wait = Path(directory) / "outputs-wait"
        self._slots_wanted = Path(directory) / "slots-wanted"
        self._seen = (-1, Committed())  # modification time of the file, its content

    def start_anew(self) -> None:
        """Removes what an earlier pipeline of the same run has left: the app has changed."""
        for path in (self._committed, self._policy, self._error, self._stopping, self._reading, self._lanes_ready):
            path.unlink(missing_ok=True)

    def set_committed(self, committed: Committed) -> None:
        """Reports from the sink to the reader which batch is durable, and when time will next change a result."""
        replace(self._committed, json.dumps(dataclasses.asdict(committed)).encode())

    def committed(self) -> Committed:
        try:
            changed = self._committed.stat().st_mtime_ns
            if changed != self._seen[0]:
                self._seen = changed, Committed(**json.loads(self._committed.read_bytes()))
        except FileNotFoundError:
            return Committed()
        return self._seen[1]

    def set_policy_report(self, report: dict[str, Any]) -> None:
        """Reports from the reader to the command what the policy has learnt and what waits."""
        replace(self._policy, json.dumps(report).encode())

    def policy_report(self) -> dict[str, Any]:
        try:
            report: dict[str, Any] = json.loads(self._policy.read_bytes())
        except FileNotFoundError:
            return {}
        return report

    def close_streams(self) -> None:
        """Makes the reader end the live streams: the run's time is over."""
        self._closing.touch()

    @property
    def closing(self) -> bool:
        return self._closing.exists()

    def stop_epochs(self) -> None:
        """Makes the reader end the epoch that runs, and begin no other: the run stops."""
        self._stopping.touch()

    @property
    def stopping(self) -> bool:
        return self._stopping.exists()

    def start_reading(self) -> None:
        """Reports from the reader to the command that Spark has asked for the first batch: the streams flow."""
        self._reading.touch()

    @property
    def reading(self) -> bool:
        return self._reading.exists()

    def hold_streams(self) -> None:
        """Makes the lanes wait before their first round: other nodes are not ready yet."""
        self._holding.touch()

    def release_streams(self) -> None:
        self._holding.unlink(missing_ok=True)

    @property
    def holding(self) -> bool:
        return self._holding.exists()

    def report_lanes_ready(self) -> None:
        """Reports from the reader to the command that the workers of all lanes have loaded their kernels."""
        self._lanes_ready.touch()

    @property
    def lanes_ready(self) -> bool:
        return self._lanes_ready.exists()

    def set_outputs_wait(self, wait: bool) -> None:
        """Reports from the sink to the reader whether outputs wait for the end of an epoch, even if it has no round."""
        _set(self._outputs_wait, wait)

    @property
    def outputs_wait(self) -> bool:
        return self._outputs_wait.exists()

    def set_slots_wanted(self, wanted: bool) -> None:
        """Reports from the command to the reader whether other runs may wait for the slots of this one."""
        _set(self._slots_wanted, wanted)

    @property
    def slots_wanted(self) -> bool:
        return self._slots_wanted.exists()

    @contextmanager
    def recording_errors(self) -> Iterator[None]:
        """Saves an error for the command. Spark would wrap it in two stack traces."""
        try:
            yield
        except Exception as error:
            replace(self._error, pickle.dumps(error))
            raise

    def error(self) -> Exception | None:
        if not self._error.exists():
            return None
        error = pickle.loads(self._error.read_bytes())
        assert isinstance(error, Exception)
        return error


def _set(path: Path, is_set: bool) -> None:
    if is_set:
        path.touch()
    else:
        path.unlink(missing_ok=True)
