"""Reports what the operators of a task hold, in tuples and bytes. It walks their objects, so an operator need not
count.

Invariant: a buffer counts once, at its full length, however many slices of it are held, because that is what the
allocator holds. If several operators hold one buffer, the one that runs last is charged. Streams that wait are charged
after all operators, since a window passes its columns on without a copy. Cost: about a microsecond per array held, and
nothing per tuple.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.plan.logical import PlanNode, Query, Scan

_ARRAY = 112  # bytes of a numpy array object without its data
_PLAIN = (str, int, float, bool, bytes, type(None), type, types.FunctionType, types.MethodType, np.generic, np.dtype)


@dataclass(frozen=True)
class Part:
    """Part of an operator's state that has one origin: a window below the operator, or its own keys."""

    what: str
    tuples: int
    bytes: int
    unbounded: bool = False  # an UNBOUNDED window lies below it
    window: bool = False  # whether these are tuples of a window, not groups, versions or pairs


@dataclass(frozen=True)
class Holding:
    """State that one operator holds."""

    label: str  # as `kigen explain` shows it
    queries: tuple[str, ...]  # that the operator serves
    tuples: int
    bytes: int
    parts: tuple[Part, ...] = ()

    @property
    def fills(self) -> str:
        """The window or key that most of the state comes from."""
        return max(self.parts, key=lambda part: part.bytes).what if self.parts else self.label

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "queries": list(self.queries), "parts": [vars(part) for part in self.parts]}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Holding:
        parts = tuple(Part(**part) for part in value["parts"])
        return Holding(value["label"], tuple(value["queries"]), value["tuples"], value["bytes"], parts)


class Ledger:
    """Counts the bytes of each buffer once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()  # addresses of buffers and ids of objects: both are addresses in this process
        self._kept: list[Any] = []  # keeps counted objects alive, so that no other object gets their ids

    def charge(self, *things: Any) -> int:
        """Returns the bytes that these objects hold and that no earlier call has counted."""
        self._kept += things
        total, stack = 0, list(things)
        while stack:
            thing = stack.pop()
            if isinstance(thing, _PLAIN) or id(thing) in self._seen:
                continue
            self._seen.add(id(thing))
            if isinstance(thing, np.ndarray):
                total += self._array(thing, stack)
            elif isinstance(thing, pa.RecordBatch | pa.Table):
                total += self._columns(thing)
            elif isinstance(thing, pa.Array | pa.ChunkedArray):
                total += self._buffers(thing.chunks if isinstance(thing, pa.ChunkedArray) else [thing])
            elif isinstance(thing, pa.Buffer):
                total += self._buffer(thing)
            elif isinstance(thing, dict):
                total += 100 * len(thing)  # a rough size of keys and numbers
                stack.extend(thing.values())
            elif isinstance(thing, list | tuple | set):
                stack.extend(thing)
            elif not type(thing).__module__.startswith(("kigen.plan", "pyarrow", "duckdb", "_duckdb")):
                stack.extend(getattr(thing, "__dict__", {}).values())
        return total

    def _array(self, array: np.ndarray[Any, Any], stack: list[Any]) -> int:
        if array.base is None:
            return array.nbytes + _ARRAY
        if isinstance(array.base, np.ndarray | pa.Array | pa.Buffer):
            stack.append(array.base)
            return _ARRAY
        address = array.__array_interface__["data"][0]
        if address in self._seen:
            return _ARRAY
        self._seen.add(address)
        return array.nbytes + _ARRAY

    def _columns(self, batch: pa.RecordBatch | pa.Table) -> int:
        if isinstance(batch, pa.Table):
            return self._buffers(chunk for column in batch.columns for chunk in column.chunks)
        return self._buffers(batch.columns)

    def _buffers(self, arrays: Iterable[pa.Array]) -> int:
        return sum(self._buffer(buffer) for array in arrays for buffer in array.buffers() if buffer is not None)

    def _buffer(self, buffer: pa.Buffer) -> int:
        if not buffer.size or buffer.address in self._seen:
            return 0
        self._seen.add(buffer.address)
        return int(buffer.size)


def served_by(nodes: Iterable[PlanNode], queries: Iterable[Query]) -> list[tuple[str, ...]]:
    """Returns the queries that use each node. It hashes whole plans, so call it once."""
    serves: dict[PlanNode, list[str]] = {}
    for query in queries:
        for node in query.root.walk():
            serves.setdefault(node, []).append(query.name)
    return [tuple(serves.get(node, ())) for node in nodes]


def holdings(
    nodes: Sequence[PlanNode], operators: Iterable[Any], serves: Sequence[tuple[str, ...]], ledger: Ledger
) -> list[Holding]:
    """Reports every operator that holds anything: operators that run last come first, and streams that wait come at the
    end."""
    whole = list(zip(nodes, operators, serves, strict=True))
    operating = [one for one in whole if not isinstance(one[0], Scan)]
    waiting = [one for one in whole if isinstance(one[0], Scan)]
    found = [_holding(node, operator, queries, ledger) for node, operator, queries in (*reversed(operating), *waiting)]
    return [held for held in found if held.bytes or held.tuples]


def _holding(node: PlanNode, operator: Any, queries: tuple[str, ...], ledger: Ledger) -> Holding:
    if isinstance(node, Scan):
        size = ledger.charge(operator)
        waits = Part(f"tuples of {node.stream} that wait for their time", operator.held, size)
        return Holding(node.label(), queries, operator.held, size, (waits,))
    parts = []
    for child, kept in zip(node.input_relations, getattr(operator, "kept_of_inputs", ()), strict=False):
        count, size = _count(kept), ledger.charge(kept)
        if size or count:
            parts.append(Part(child.rows_text(), count, size, child.is_unbounded, child.is_windowed))
    rest, others = ledger.charge(operator), operator.held - sum(part.tuples for part in parts)
    if rest or others:
        parts.append(Part(node.state_text(others), others, rest, node.is_unbounded, node.is_windowed))
    return Holding(node.label(), queries, operator.held, sum(part.bytes for part in parts), tuple(parts))


def lines_holding(query: str, lines: Any, ledger: Ledger) -> Holding:
    """Reports the result lines of a query that wait for their death."""
    size = ledger.charge(lines)
    return Holding(
        f"lines of {query}",
        (query,),
        lines.held,
        size,
        (Part(f"result lines of {query} that are still alive", lines.held, size),),
    )


def _count(kept: Any) -> int:
    held = getattr(kept, "held", None)
    return int(len(kept) if held is None else held)
