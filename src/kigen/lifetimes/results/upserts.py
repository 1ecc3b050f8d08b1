"""Changes of a relation by key: at most one change per key and instant, for outputs that hold the newest row of a key.

An insert sets the row of its key, whether or not there was one; a delete says that the key has no row any more. A
delete and an insert of one key at one instant are one insert. The order is that of changes
(kigen.lifetimes.results.changes).

Invariant: at each instant at most one row has each key, and no key has a NULL; anything else raises EvaluationError,
which names the key. Cost: beside the state of changes, the keys that have a row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Ints, no_ints, take_columns
from kigen.lifetimes.chunks import State
from kigen.lifetimes.expressions.evaluation import EvaluationError
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.results.changes import Changes, ordered_table
from kigen.lifetimes.sweeps.lifecycle import Events
from kigen.lifetimes.sweeps.net_changes import net_changes
from kigen.lifetimes.sweeps.sweep import group_runs
from kigen.plan.logical import Query


class Upserts(Changes):
    """Turns the messages of a query's root into changes by the query's key."""

    def __init__(self, query: Query, signed: bool, secret: int = 0) -> None:
        super().__init__(query, signed, secret)
        self._query, self._key = query, query.key
        self._groups = Groups(tuple(query.schema[k] for k in self._key), secret)
        self._rows = no_ints()  # number of rows, by slot of the key

    def _changes(self, events: Events) -> pa.Table | None:
        sample, time, net = net_changes(events)
        real = np.flatnonzero(net)
        if not len(real):
            return None
        time, net = time[real], net[real]
        columns = take_columns(events.columns, sample[real])
        slots = self._slots(columns, time)
        runs = group_runs(slots, time)
        after = runs.cumulated(net, self._rows)
        if bool((after > 1).any()):
            raise self._twice(columns, runs.sample()[after > 1], time)
        lengths = np.diff(np.append(runs.begin, len(runs.order)))
        rows_after = np.empty(len(net), dtype=np.int64)
        rows_after[runs.order] = np.repeat(after, lengths)
        self._groups.release(runs.slot[runs.last & (after == 0)])
        told = np.flatnonzero((net > 0) | (rows_after == 0))
        return ordered_table(take_columns(columns, told), time[told], net[told])

    def _slots(self, columns: pa.RecordBatch, time: Ints) -> Ints:
        keys = pa.RecordBatch.from_arrays(
            [columns.column(k) for k in self._key], names=[f"c{i}" for i in range(len(self._key))]
        )
        for k in self._key:
            if columns.column(k).null_count:
                row = int(np.flatnonzero(pc.is_null(columns.column(k)).to_numpy(zero_copy_only=False))[0])
                name = self._query.schema[k].name
                raise self._error(f"the key {name} is NULL {_when(int(time[row]))}", f"add WHERE {name} IS NOT NULL")
        slots = self._groups.assign(keys, len(time))
        self._rows = grown(self._rows, self._groups.key_table.capacity)
        return slots

    def _twice(self, columns: pa.RecordBatch, rows: Ints, time: Ints) -> EvaluationError:
        row = int(rows[np.argmin(time[rows])])
        named = ", ".join(f"{self._query.schema[k].name} = {columns.column(k)[row].as_py()!r}" for k in self._key)
        return self._error(f"two rows have the key {named} {_when(int(time[row]))}", "GROUP BY the key")

    def _error(self, what: str, instead: str) -> EvaluationError:
        required = f"mode '{self._query.mode}' needs one row per key at each instant, and no NULL in a key"
        return EvaluationError(f"query {self._query.name}: {what}; {required}: choose another key, or {instead}")

    def state(self) -> State:
        return {**super().state(), "groups": self._groups.state(), "rows": self._rows}

    def load(self, state: State) -> None:
        super().load(state)
        self._groups.load(state["groups"])
        self._rows = np.array(state["rows"], dtype=np.int64)


def _when(at_us: int) -> str:
    return f"at {np.datetime64(at_us, 'us')}Z"
