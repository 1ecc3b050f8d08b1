"""Writes `INTO delta (path = ...)`: a Delta table that grows by one version per commit.

Each version carries a transaction identifier: the run and the query as application, and the number of rows so far as
version. So every row is there exactly once (kigen.connectors.numbered_sink). Rows that other runs or writers appended
stay. Times are UTC timestamps. A version is synced to the disk before its position is recorded; if a power cut tears
one that was not, opening says which file is missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError

from kigen.connectors.encoding import output_columns
from kigen.connectors.numbered_sink import NumberedSink
from kigen.connectors.parquet.sink import ParquetEncoder
from kigen.connectors.requests import SinkRequest
from kigen.connectors.source_base import InputError
from kigen.durable import sync_directory, sync_file
from kigen.plan.logical import columns_of

_UTC = pa.timestamp("us", "UTC")


class DeltaSink(NumberedSink):
    commits_per_epoch = True  # a version and its files each

    def __init__(self, asked: SinkRequest) -> None:
        query, connector, schema, is_stream = asked.query, asked.connector, asked.schema, asked.is_stream
        changes = asked.changes
        super().__init__(f"query '{query}'", schema, is_stream, changes)
        self.path = os.path.normpath(asked.path)
        self._query = query
        named = ParquetEncoder(schema, is_stream, changes).arrow_schema
        self.arrow_schema = pa.schema([(f.name, _UTC if pa.types.is_timestamp(f.type) else f.type) for f in named])
        parts = columns_of(schema, str(connector.option("partition_by", "")))
        self._partition_by = [self.arrow_schema.names[i] for i in parts]
        self._compact_every = int(connector.option("compact_every", 0))
        self._commits = 0

    @property
    def _application(self) -> str:
        return f"kigen/{self.run_name}/{self._query}"

    def _open(self, recorded: int) -> int:
        os.makedirs(self.path, exist_ok=True)
        try:
            table = DeltaTable.create(
                self.path, self.arrow_schema, mode="ignore", partition_by=self._partition_by or None
            )
        except (DeltaError, OSError) as error:
            raise InputError(f"{self._owner}: the Delta table cannot be opened: {error}", self.path) from error
        self._require_schema(table)
        stored = int(table.transaction_version(self._application) or 0)
        self._require(stored, recorded)
        if stored > recorded:
            self._require_files(table.version())
        return stored

    def _require_schema(self, table: DeltaTable) -> None:
        found = {field.name: str(field.type) for field in table.schema().fields}
        wanted = {field.name: str(field.type) for field in DeltaSchema.from_arrow(self.arrow_schema).fields}
        if found != wanted:
            raise InputError(
                f"{self._owner}: the Delta table has the columns {_listed(found)}; required are {_listed(wanted)}: "
                "name a path that does not exist, or move the table away",
                self.path,
            )
        parts = list(table.metadata().partition_columns)
        if parts != self._partition_by:
            here, there = ", ".join(self._partition_by) or "nothing", ", ".join(parts) or "nothing"
            raise InputError(
                f"{self._owner}: the Delta table is partitioned by {there}, and partition_by says {here}", self.path
            )

    def _require_files(self, version: int) -> None:
        for name, size in self._added(version):
            file = os.path.join(self.path, name)
            if not os.path.exists(file) or os.path.getsize(file) != size:
                raise InputError(
                    f"{self._owner}: version {version} of the Delta table names a file that a power cut has torn: "
                    f"restore version {version - 1}, then start again",
                    file,
                )

    def _store(self, rows: pa.Table, reached: int) -> None:
        typed = pa.table(
            output_columns(rows, self.schema, self.is_stream, self.changes), names=self.arrow_schema.names
        ).cast(self.arrow_schema)
        marked = CommitProperties(app_transactions=[Transaction(self._application, reached)])
        try:
            write_deltalake(self.path, typed, mode="append", commit_properties=marked)
            self._commits += 1
            if self._compact_every and self._commits % self._compact_every == 0:
                DeltaTable(self.path).optimize.compact()
        except (DeltaError, OSError) as error:
            raise InputError(f"{self._owner}: the Delta table refused rows: {error}", self.path) from error
        if self.syncs:
            self._sync()

    def _sync(self) -> None:
        """Makes the newest version durable, and the one before if that was compacted."""
        newest = DeltaTable(self.path).version()
        for version in (newest, newest - 1):
            for name, _ in self._added(version):
                file = os.path.join(self.path, name)
                if os.path.exists(file):
                    sync_file(file)
                    sync_directory(os.path.dirname(file))
            if os.path.exists(self._log(version)):
                sync_file(self._log(version))
        sync_directory(os.path.join(self.path, "_delta_log"))

    def _log(self, version: int) -> str:
        return os.path.join(self.path, "_delta_log", f"{version:020d}.json")

    def _added(self, version: int) -> Iterator[tuple[str, int]]:
        """Yields the files that a version added, with their sizes."""
        if not os.path.exists(self._log(version)):
            return
        with open(self._log(version), encoding="utf-8") as log:
            for line in log:
                added = json.loads(line).get("add")
                if added is not None:
                    yield str(added["path"]), int(added["size"])

    def close(self) -> None:
        self._waiting = []


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(columns)
