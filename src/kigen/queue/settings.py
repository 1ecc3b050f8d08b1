"""How a queue is kept: bounds, durability, files. Plain values; wrong ones are refused when they are made."""

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
    folder: Path | None = None  # segment files go to folder/name; None: memory only
    durable: bool = False  # a restart finds everything again
    fsync: str | float = (
        # "always": before an append is acknowledged; seconds: at least so often; "never": a kill loses nothing, a power
        # cut may
        "never"
    )
    memory_bytes: int = 64 * MIB
    max_bytes: int = 1024 * MIB  # kept, in memory and files; beyond it producers wait
    max_tuples: int | None = None
    segment_bytes: int = 64 * MIB
    compress: str = "none"  # of blocks appended here; what arrives compressed stays so
    first: int = 0  # offset of the first tuple of a new queue
    repair: bool = False  # accept the loss of what a damaged disk cannot give back

    def __post_init__(self) -> None:
        codec_number(self.compress)
        if self.durable and self.folder is None:
            raise BadRequest("a durable queue needs a folder")
        if not (self.fsync in ("always", "never") or (isinstance(self.fsync, float) and self.fsync > 0)):
            raise BadRequest(
                f"fsync '{self.fsync}': 'always', 'never' or a number of seconds (a float above 0) is required"
            )
        if min(self.memory_bytes, self.max_bytes, self.segment_bytes) <= 0 or (
            self.max_tuples is not None and self.max_tuples <= 0
        ):
            raise BadRequest("bounds of a queue must be above 0")

    def queue_folder(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / name

    @property
    def bound_bytes(self) -> int:
        """What may be kept: without files, no more than memory."""
        return self.max_bytes if self.folder is not None else min(self.max_bytes, self.memory_bytes)


def require_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"stream name {name!r}: letters, digits, '_', '.', '-' are required, at most 128, not beginning with '.' "
            "or '-'"
        )
    return name


def require_plain_columns(schema: pa.Schema) -> None:
    """A message without its schema cannot carry dictionaries; and a block's buffers must follow from its columns
    alone."""
    if len(schema) > MOST_COLUMNS:
        raise BadRequest(f"{len(schema):,} columns: at most {MOST_COLUMNS:,} can be in a queue")
    for field in schema:
        if _is_encoded(field.type):
            raise BadRequest(
                f"column '{field.name}' is dictionary-encoded, or encoded in another way: decode it before it enters "
                "a queue"
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
