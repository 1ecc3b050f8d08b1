"""Encodes a batch as bytes: one Arrow IPC message without its schema, compressed if that makes it smaller.

Nothing is ever unpickled. Invariant: `decode(encode(b, c), b.schema)` equals b for every codec c, and the bytes with a
codec are never more than those without. The result of `decode` is safe to work on even if the bytes are hostile: it has
the layout that the columns need (`block_layout`), and every value is validated. Cost: one copy of the columns. Decoding
copies only what is compressed or not aligned to 8 bytes, and makes one pass over texts and offsets.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kigen.queue.block_layout import check_layout
from kigen.queue.errors import BadRequest, SchemaMismatch
from kigen.queue.record import LONGEST_SENT, checksum

PLAIN = 0
CODECS = {"none": PLAIN, "zlib": 1, "zstd": 2, "lz4": 3}
_NAMES = {number: name for name, number in CODECS.items()}
_LENGTH = 4  # bytes before compressed data: the length of the plain form
_SMALL = 16 * 1024  # bytes; below it, the output of zstd level 1 is no smaller than that of zlib
_ZSTD_SMALL = 15
_WORTH = 64  # bytes; below it no codec saves anything
_CUT = 64 << 20  # bytes; larger batches are split into several blocks


@dataclass(frozen=True, slots=True)
class Encoded:
    """One encoded batch, as it is stored in memory and in files and sent over links."""

    data: Any  # pyarrow.Buffer
    codec: int
    count: int  # tuples
    plain: int  # bytes before compression
    crc: int


def codec_number(name: str) -> int:
    """Returns the number of a codec in records."""
    if name not in CODECS:
        raise BadRequest(f"compression '{name}': one of {', '.join(CODECS)} is required")
    return CODECS[name]


def encode(batch: pa.RecordBatch, codec: int = PLAIN) -> Encoded:
    """Encodes one batch. Raises BadRequest if it is too large for one block."""
    message = batch.serialize()
    if message.size > LONGEST_SENT:
        raise BadRequest(
            f"the batch has {message.size:,} bytes, and a block holds at most {LONGEST_SENT:,}: split the batch"
        )
    data, used = message, PLAIN
    if codec != PLAIN and message.size > _WORTH:
        packed = _compress(message, codec)
        if packed.size < message.size:
            data, used = packed, codec
    return Encoded(data, used, batch.num_rows, message.size, checksum(data))


def encode_all(batch: pa.RecordBatch, codec: int = PLAIN) -> Iterator[Encoded]:
    """Encodes a batch of any size as blocks that are small enough to send."""
    parts = min(batch.num_rows, -(-batch.nbytes // _CUT))
    rows = -(-batch.num_rows // max(1, parts))
    for first in range(0, batch.num_rows, max(1, rows)):
        yield encode(cut(batch, first, min(batch.num_rows, first + rows)), codec)


def decode(data: Any, codec: int, schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Returns the `count` rows of a block.

    Raises BadRequest for anything that is not a block of these columns, also for bytes that were made to do harm.
    """
    message = _decompress(data, codec) if codec != PLAIN else _aligned(data)
    check_layout(message, count, schema)
    try:
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise BadRequest(f"the block does not match the stream's columns: {error}") from error
    if batch.num_rows != count:
        raise BadRequest(f"the block has {batch.num_rows:,} rows; {count:,} were announced")
    return batch


def pack(data: bytes, codec: int) -> bytes:
    """Compresses any bytes if that makes them fewer, and puts the number of the codec in front."""
    if codec != PLAIN and len(data) > _WORTH:
        packed = _compress(pa.py_buffer(data), codec)
        if packed.size < len(data):
            return bytes([codec]) + bytes(packed)
    return bytes([PLAIN]) + data


def unpack(packed: bytes) -> bytes:
    """Reverses `pack`."""
    if not packed:
        raise BadRequest("the answer is empty: bytes were expected")
    return packed[1:] if packed[0] == PLAIN else bytes(_decompress(packed[1:], packed[0]))


def cut(batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    """Returns rows [start, stop) of a batch, without a copy."""
    return batch if start == 0 and stop == batch.num_rows else batch.slice(start, stop - start)


def join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns one batch of all rows."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(list(batches))


def without(unit: Sequence[Encoded], old: int, schema: pa.Schema) -> list[Encoded]:
    """Returns a unit without its first `old` tuples."""
    rest: list[Encoded] = []
    for encoded in unit:
        gone = min(old, encoded.count)
        old -= gone
        if gone == 0:
            rest.append(encoded)
        elif gone < encoded.count:
            rest.append(
                encode(
                    cut(decode(encoded.data, encoded.codec, schema, encoded.count), gone, encoded.count), encoded.codec
                )
            )
    return rest


def require_schema(batch: pa.RecordBatch, schema: pa.Schema, stream: str) -> None:
    """Raises SchemaMismatch unless the batch has the columns of the stream."""
    require_columns(batch.schema, schema, stream)


def require_columns(found: pa.Schema, wanted: pa.Schema, stream: str) -> None:
    """Raises SchemaMismatch unless both schemas are equal."""
    if not found.equals(wanted):
        raise SchemaMismatch(f"stream '{stream}': columns {_columns(wanted)} are required; got {_columns(found)}")


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{f.name} {f.type}" for f in schema) + ")"


def _compress(message: Any, codec: int) -> Any:
    if codec == CODECS["zlib"]:
        body = zlib.compress(message, 6)
    elif codec == CODECS["zstd"]:
        body = pa.Codec("zstd", compression_level=_ZSTD_SMALL if message.size <= _SMALL else 1).compress(
            message, asbytes=True
        )
    else:
        body = pa.compress(message, codec=_arrow_name(codec), asbytes=True)
    return pa.py_buffer(message.size.to_bytes(_LENGTH, "little") + body)


def _decompress(data: Any, codec: int) -> Any:
    if codec not in _NAMES or len(data) < _LENGTH:
        raise BadRequest(f"the codec number {codec} is unknown: both sides must run the same version of Kigen")
    size, body = int.from_bytes(bytes(data[:_LENGTH]), "little"), data[_LENGTH:]
    if not 0 < size <= LONGEST_SENT:
        raise BadRequest(f"a compressed block claims to hold {size:,} bytes: 1 to {LONGEST_SENT:,} are allowed")
    try:
        if codec == CODECS["zlib"]:
            plain = pa.py_buffer(zlib.decompressobj().decompress(body, size))
        else:
            plain = pa.decompress(body, decompressed_size=size, codec=_arrow_name(codec))
    except (zlib.error, pa.ArrowException, OSError, MemoryError) as error:
        raise BadRequest(f"a compressed block cannot be decompressed: {error}") from error
    if plain.size != size:
        raise BadRequest("a compressed block has another length than it claims")
    return plain


def _arrow_name(codec: int) -> str:
    return "lz4_raw" if _NAMES[codec] == "lz4" else _NAMES[codec]


def _aligned(data: Any) -> Any:
    """Returns the data at an address that Arrow can read. Messages of gRPC begin at any address."""
    if data.address % 8 == 0:
        return data
    copy = pa.allocate_buffer(data.size)
    memoryview(copy).cast("B")[:] = memoryview(data).cast("B")
    return copy
