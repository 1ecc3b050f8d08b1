"""Chunks: tuples that operators keep together as state, with their columns, lifetimes and keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kigen.lifetimes.blocks import (
    FOREVER,
    NO_HOLDER,
    Block,
    Ints,
    Mask,
    concat_columns,
    concat_ints,
    empty_columns,
    filter_columns,
    no_ints,
    take_columns,
)
from kigen.plan.types import Schema

State = dict[str, Any]
MOST_TEXT = 1 << 29  # bytes of columns in a merged chunk: Arrow's text offsets have 32 bits


@dataclass
class Chunk:
    """Tuples that are kept together: columns, lifetimes, and a `key` per tuple that the operator computed when the
    tuple came."""

    columns: pa.RecordBatch
    start: Ints
    end: Ints
    holder: Ints
    key: Ints | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Ints) -> Chunk:
        key = None if self.key is None else self.key[index]
        return Chunk(take_columns(self.columns, index), self.start[index], self.end[index], self.holder[index], key)

    def filter(self, mask: Mask) -> Chunk:
        key = None if self.key is None else self.key[mask]
        return Chunk(filter_columns(self.columns, mask), self.start[mask], self.end[mask], self.holder[mask], key)

    def mortal(self) -> Chunk:
        """Drops the tuples that are known never to die."""
        dies = (self.end != FOREVER) | (self.holder != NO_HOLDER)
        return self if bool(dies.all()) else self.filter(dies)

    def cut(self, begin: int, stop: int) -> Chunk:
        part = slice(begin, stop)
        columns = self.columns.slice(begin, stop - begin) if self.columns.num_columns else self.columns
        return Chunk(
            columns, self.start[part], self.end[part], self.holder[part], None if self.key is None else self.key[part]
        )

    @staticmethod
    def empty(schema: Schema) -> Chunk:
        return Chunk(empty_columns(schema), no_ints(), no_ints(), no_ints(), no_ints())

    @staticmethod
    def concat(parts: list[Chunk], schema: Schema) -> Chunk:
        parts = [p for p in parts if len(p)]
        if len(parts) <= 1:
            return parts[0] if parts else Chunk.empty(schema)
        return Chunk(
            concat_columns([p.columns for p in parts]),
            concat_ints([p.start for p in parts]),
            concat_ints([p.end for p in parts]),
            concat_ints([p.holder for p in parts]),
            concat_ints([p.key for p in parts if p.key is not None]) if parts[0].key is not None else None,
        )

    @staticmethod
    def packed(chunks: list[Chunk], schema: Schema) -> list[Chunk]:
        """Merges chunks into as few as text offsets of 32 bits allow."""
        packs: list[list[Chunk]] = [[]]
        size = 0
        for chunk in chunks:
            size += chunk.columns.nbytes
            if size > MOST_TEXT and packs[-1]:
                packs.append([])
                size = chunk.columns.nbytes
            packs[-1].append(chunk)
        return [Chunk.concat(pack, schema) for pack in packs]

    def state(self) -> State:
        return {"columns": self.columns, "start": self.start, "end": self.end, "holder": self.holder, "key": self.key}

    @staticmethod
    def load(state: State) -> Chunk:
        return Chunk(state["columns"], state["start"], state["end"], state["holder"], state["key"])


def chunk_of(block: Block, mask: Mask | None = None) -> Chunk:
    """Makes a chunk of a block's tuples, or of those in `mask`."""
    chunk = Chunk(block.columns, block.start, block.end, block.holder)
    return chunk if mask is None else chunk.filter(mask)


def chunk_states(saved: State | list[State]) -> list[State]:
    """Returns saved chunks as a list. Older formats saved only one."""
    return saved if isinstance(saved, list) else [saved]
