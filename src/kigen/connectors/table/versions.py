"""Files of a table's versions, below `checkpoint/tables`: one that is whole, and the changes since.

`NAME.arrow` is the first version, `NAME@3.arrow` has the births and deaths that lead from version 2 to version 3, and
`NAME@7.whole.arrow` is version 7 as a whole. Every row has a number, which its death names. Invariant: a file never
changes once it has its name, so a replay finds the versions that were read first; one process writes, all others read.
Cost: a refresh writes its changes, not the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.table.difference import difference
from kigen.connectors.table.keys import check_key
from kigen.durable import DamagedFile, make_directories, remove, replace
from kigen.lifetimes.windows.table_rows import BORN, ROW
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, arrow_schema

TABLES = "tables"  # below a checkpoint
_ABOUT = b"kigen"
_TODO = "Restore it from a copy of the checkpoint, or start from the beginning with a new --checkpoint directory"
Json = dict[str, Any]


@dataclass(frozen=True)
class Version:
    """A version as a whole: rows with their numbers, the number of the next row, and what its reader noted."""

    number: int
    rows: pa.Table
    next_row: int
    about: Json


class TableVersions:
    """Versions of one table."""

    def __init__(self, checkpoint: str | Path, name: str, schema: Schema, sync: bool = True) -> None:
        self._folder, self._name, self._sync = Path(checkpoint) / TABLES, quote(name, safe=""), sync
        self._columns = list(arrow_schema(schema).names)

    @property
    def first_path(self) -> Path:
        return self._folder / f"{self._name}.arrow"

    def _change_path(self, number: int) -> Path:
        return self._folder / f"{self._name}@{number}.arrow"

    def _whole_path(self, number: int) -> Path:
        return self.first_path if number == 1 else self._folder / f"{self._name}@{number}.whole.arrow"

    def has(self, number: int) -> bool:
        """Returns whether version `number` has been written as changes."""
        return self._change_path(number).exists()

    def base(self) -> int:
        """Returns the newest version that is there as a whole; 0 if there is none."""
        return max(self._wholes(), default=0)

    def newest(self) -> int:
        number = self.base()
        while number and self.has(number + 1):
            number += 1
        return number

    def _wholes(self) -> list[int]:
        ends = ".whole.arrow"
        found = [path.name for path in self._folder.glob(f"{self._name.replace('[', '[[]')}@*{ends}")]
        numbers = [int(name[len(self._name) + 1 : -len(ends)]) for name in found]
        return [*numbers, 1] if self.first_path.exists() else numbers

    # --- reading -------------------------------------------------------------------------------------------------

    def whole(self, number: int) -> Version:
        """Returns a version that is there as a whole."""
        rows = _read(self._whole_path(number))
        about = _about(rows)
        if ROW not in rows.column_names:
            rows = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
        return Version(number, rows, int(about.pop("next_row", rows.num_rows)), about)

    def changes(self, number: int) -> pa.Table:
        """Returns the births and deaths of a version."""
        return _read(self._change_path(number))

    def version(self, number: int) -> Version:
        """Returns any version as a whole, made from one that is there and the changes since."""
        found = self.whole(max(n for n in self._wholes() if n <= number))
        while found.number < number:
            changes = self.changes(found.number + 1)
            about = _about(changes)
            next_row = int(about.pop("next_row"))
            found = Version(found.number + 1, applied(found.rows, changes), next_row, about)
        return found

    def rows_between(self, first: int, last: int) -> pa.Table:
        """Returns what leads from version `first` to `last`: births and deaths. Version 0 has no rows."""
        if first:
            parts = [self.changes(number) for number in range(first + 1, last + 1)]
        else:
            rows = self.whole(last).rows
            parts = [rows.append_column(BORN, pa.array(np.full(rows.num_rows, True)))]
        names = [*self._columns, ROW, BORN]
        return pa.concat_tables([part.select(names).replace_schema_metadata() for part in parts])

    # --- writing -------------------------------------------------------------------------------------------------

    def write_first(self, rows: pa.Table, about: Mapping[str, Any] | None = None) -> None:
        self._write(self.first_path, rows, dict(about or {}))

    def write_changes(self, version: Version, changes: pa.Table) -> None:
        """Writes the changes that lead to `version`."""
        self._write(self._change_path(version.number), changes, {**version.about, "next_row": version.next_row})

    def trim(self, needed: int) -> None:
        """Removes what no replay reads that begins after version `needed`, and what a new reader does not need."""
        base = min(self._wholes(), default=0)
        if needed <= base:
            return
        kept = self.version(needed)
        self._write(self._whole_path(needed), kept.rows, {**kept.about, "next_row": kept.next_row})
        for number in range(1, needed + 1):
            if number > base:
                remove(self._change_path(number))
        for number in [n for n in self._wholes() if n < needed]:
            remove(self._whole_path(number))

    def _write(self, path: Path, rows: pa.Table, about: Json) -> None:
        make_directories(path.parent, self._sync)
        out = pa.BufferOutputStream()
        schema = rows.schema.with_metadata({_ABOUT: json.dumps(about).encode()})
        with pa.ipc.new_file(out, schema) as writer:
            writer.write_table(rows.replace_schema_metadata(schema.metadata))
        replace(path, bytes(out.getvalue()), sync=self._sync)


class KeptTable:
    """The newest version of a table, in the process that refreshes it."""

    def __init__(self, versions: TableVersions, stream: SourceStream) -> None:
        self.versions, self._stream = versions, stream
        self._now: Version | None = None
        self._names = list(arrow_schema(stream.schema).names)

    @property
    def now(self) -> Version:
        if self._now is None:
            self._now = self.versions.version(self.versions.newest())
        return self._now

    def refresh(self, rows: pa.Table) -> bool:
        """Writes the next version: these rows. Returns whether they differ from those of the last one."""
        dead, born = difference(self.now.rows, rows, self._names)
        return self.add(dead, born, self.now.about)

    def add(self, dead: pa.Array, born: pa.Table, about: Json) -> bool:
        """Writes the next version: the rows with these numbers die, others are born. Returns whether there is one.

        Raises InputError if the KEY of the table would not hold."""
        before = self.now
        if not len(dead) and not born.num_rows:
            return False
        numbers = pa.array(np.arange(before.next_row, before.next_row + born.num_rows))
        born = born.append_column(ROW, numbers).append_column(BORN, pa.array(np.full(born.num_rows, True)))
        empty = [pa.nulls(len(dead), f.type) for f in born.schema if f.name not in (ROW, BORN)]
        gone = pa.table([*empty, dead.cast(pa.int64()), pa.array(np.full(len(dead), False))], schema=born.schema)
        changes = pa.concat_tables([gone, born]).combine_chunks()
        next_row = before.next_row + born.num_rows
        version = Version(before.number + 1, applied(before.rows, changes), next_row, about)
        check_key(self._stream, version.rows)
        self.versions.write_changes(version, changes)
        self._now = version
        return True


def applied(rows: pa.Table, changes: pa.Table) -> pa.Table:
    """Returns the rows after births and deaths."""
    born = changes.column(BORN)
    dead = changes.column(ROW).filter(pc.invert(born))
    kept = rows.filter(pc.invert(pc.is_in(rows.column(ROW), value_set=dead.combine_chunks()))) if len(dead) else rows
    return pa.concat_tables([kept.replace_schema_metadata(), changes.filter(born).select(rows.column_names)])


def _read(path: Path) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
            return reader.read_all()
    except FileNotFoundError as error:
        raise DamagedFile(str(path), "a version of a table that the state refers to is missing", _TODO) from error
    except pa.ArrowInvalid as error:
        raise DamagedFile(str(path), f"a version of a table is torn ({error})", _TODO) from error


def _about(table: pa.Table) -> Json:
    found: Json = json.loads((table.schema.metadata or {}).get(_ABOUT, b"{}"))
    return found
