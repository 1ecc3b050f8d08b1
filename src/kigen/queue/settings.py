"""Settings of a queue: bounds, durability, files. Wrong values are refused when the settings are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kigen.queue.block_layout import MOST_COLUMNS
from kigen.queue.errors import BadRequest
from kigen.queue.payload import codec_number

MIB = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}")


@dataclass(frozen=True)
class QueueSettings:
    """Bounds, durability and storage of one queue."""

    folder: Path | None = None  # segment files go to folder/name; None: memory only
    durable: bool = False  # the content survives a restart
    # "always": syncs before an append is acknowledged. Seconds: syncs at least that often. "never": a power cut may
    # lose tuples, a kill does not.
    fsync: str | float = "never"
    memory_bytes: int = 64 * MIB
    max_bytes: int = 1024 * MIB  # kept in memory and files together; producers wait beyond it
    max_tuples: int | None = None
    segment_bytes: int = 64 * MIB
    compress: str = "none"  # codec for blocks that are appended here; blocks that arrive compressed stay as they are
    first: int = 0  # offset of the first tuple of a new queue
    repair: bool = False  # accept the loss of tuples that a damaged disk cannot return

    def __post_init__(self) -> None:
        codec_number(self.compress)
        if self.durable and self.folder is None:
            raise BadRequest("a durable queue needs a folder: set `folder`")
        if not (self.fsync in ("always", "never") or (isinstance(self.fsync, float) and self.fsync > 0)):
            raise BadRequest(
                f"fsync '{self.fsync}': 'always', 'never' or a number of seconds (a float above 0) is required"
            )
        if min(self.memory_bytes, self.max_bytes, self.segment_bytes) <= 0 or (
            self.max_tuples is not None and self.max_tuples <= 0
        ):
            raise BadRequest("memory_bytes, max_bytes, segment_bytes and max_tuples of a queue must be above 0")

    def queue_folder(self, name: str) -> Path | None:
        """Returns the folder with the segments of the named queue."""
        return None if self.folder is None else self.folder / name

    @property
    def bound_bytes(self) -> int:
        """Limit on the bytes kept. A queue without files cannot keep more than its memory."""
        return self.max_bytes if self.folder is not None else min(self.max_bytes, self.memory_bytes)


def require_name(name: str) -> str:
    """Returns the name if it is a valid stream name, else raises BadRequest."""
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"stream name {name!r}: write at most 128 letters, digits, '_', '.' and '-', not beginning with '.' or '-'"
        )
    return name


def require_plain_columns(schema: pa.Schema) -> None:
    """Raises BadRequest for columns that cannot be stored.

    A message without its schema cannot carry dictionaries, and the buffers of a block must follow from its columns
    alone.
    """
    if len(schema) > MOST_COLUMNS:
        raise BadRequest(f"{len(schema):,} columns: a queue holds at most {MOST_COLUMNS:,}")
    for field in schema:
        if _is_encoded(field.type):
            raise BadRequest(
                f"column '{field.name}' has the encoded type {field.type}: decode it before it enters a queue"
            )


def _is_encoded(kind: pa.DataType) -> bool:
    types = pa.types
    odd = (
        types.is_dictionary(kind)
        or types.is_run_end_encoded(kind)
        or types.is_union(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )
    views = (
        types.is_string_view(kind)
        or types.is_binary_view(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )
    return bool(odd or views) or any(_is_encoded(kind.field(i).type) for i in range(kind.num_fields))
