"""SESSION windows: a tuple lives until `size` after the last tuple of its session; a silence of `size` or more ends it.

All tuples of a session carry one holder, which is filled when the session has ended: when time has passed its last
tuple by more than `size`, or when a tuple comes after the silence. State: the last timestamp and the holder of each
open session, whatever the number of its tuples. Cost: one sort of the step's tuples by partition.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, NO_HOLDER, Block, Fills, Ints, StreamBlock, no_ints
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.operator import Message
from kigen.lifetimes.sweeps.sweep import changes
from kigen.lifetimes.windows.window_operators import WindowOperator, later
from kigen.plan.logical import Window


class SessionWindow(WindowOperator):
    """SESSION n and PARTITION BY ... SESSION n."""

    def __init__(self, node: Window, number: int, secret: int) -> None:
        super().__init__(node, number)
        self._groups = Groups(tuple(node.schema[k] for k in node.partition), secret)
        self._last: Ints = no_ints()  # timestamp of the last tuple of the open session, by slot
        self._holder: Ints = no_ints()  # its holder, or NO_HOLDER if no session is open, by slot
        self._earliest = int(FOREVER)  # no session ends before

    def step(self, inputs: list[Message], now: int) -> Block:
        (stream,) = inputs
        slot = self._partitions(stream)
        order = np.argsort(slot, kind="stable")
        slot, at = slot[order], stream.at[order]
        first = changes(slot)
        starts = np.flatnonzero(first)
        before = np.empty_like(at)
        before[1:] = at[:-1]
        before[starts] = self._last[slot[starts]]
        opens = at >= later(before, self.node.size)  # a slot without a session has no last tuple: BEFORE_TIME
        begin = np.flatnonzero(opens | first)
        mine = slot[begin]
        known = self._holder[mine]
        holder = np.where(opens[begin], stream.sequence[order[begin]] + self._base, known)
        stop = np.append(begin[1:], len(at))
        last = at[stop - 1] if len(begin) else no_ints()
        final = np.append(first[begin[1:]], True)[: len(begin)]  # the slot's last session in this step
        close = later(last, self.node.size)
        ended = ~final | (close < now)
        # Sessions of earlier steps: pushed out by a new one, or continued here and ended.
        left = first[begin] & opens[begin] & (known != NO_HOLDER)
        carried = ~opens[begin] & ended
        fills = [
            Fills(known[left], later(self._last[mine[left]], self.node.size)),
            Fills(known[carried], close[carried]),
        ]
        self._last[mine[final]], self._holder[mine[final]] = last[final], holder[final]
        if len(at):
            self._earliest = min(self._earliest, int(close.min()))
        fills.append(self._expired(now))
        lengths = stop - begin
        end, holders = np.empty_like(at), np.empty_like(at)
        end[order] = np.repeat(np.where(ended, close, FOREVER), lengths)
        holders[order] = np.repeat(holder, lengths)
        self.ids = stream.sequence + self._base
        return Block(stream.columns, stream.at, end, holders, Fills.concat(fills))

    def _partitions(self, stream: StreamBlock) -> Ints:
        columns = stream.columns.select(list(self.node.partition))
        columns = columns.rename_columns([f"c{i}" for i in range(len(self.node.partition))])
        slot = self._groups.assign(columns, len(stream))
        capacity = self._groups.key_table.capacity
        self._last, self._holder = grown(self._last, capacity, BEFORE_TIME), grown(self._holder, capacity, NO_HOLDER)
        return slot

    def _expired(self, now: int) -> Fills:
        """Closes the open sessions that time has passed. Those that began in this step need no fill: their tuples have
        their deaths; a fill of a holder that nobody waits for has no meaning."""
        if self._earliest >= now:
            return Fills.none()
        live = np.flatnonzero(self._holder != NO_HOLDER)
        close = later(self._last[live], self.node.size)
        over = close < now
        gone = live[over]
        fills = Fills(self._holder[gone], close[over])
        self._earliest = int(close[~over].min()) if not bool(over.all()) else int(FOREVER)
        self._holder[gone], self._last[gone] = NO_HOLDER, BEFORE_TIME
        self._groups.release(gone)
        return fills

    @property
    def next_event(self) -> int:
        return self._earliest

    @property
    def held(self) -> int:
        return len(self._groups)

    def state(self) -> State:
        return {"groups": self._groups.state(), "last": self._last, "holder": self._holder, "earliest": self._earliest}

    def load(self, state: State) -> None:
        self._groups.load(state["groups"])
        self._last, self._holder = state["last"].copy(), state["holder"].copy()
        self._earliest = state["earliest"]
