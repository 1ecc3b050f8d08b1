"""Batches for the secondary, compressed: the smaller of the compressed and the plain bytes, so a batch of one tuple
never costs more than it is.

What was done is told beside the bytes. Cost: one pass of the codec; zlib at its usual level, zstd at 19: batches are
small.
"""

from __future__ import annotations

import zlib
from functools import cache

import pyarrow as pa

from kigen_lab.simulate.standby.machine.topology import Codec


def squeeze(codec: Codec, plain: bytes) -> tuple[Codec, bytes]:
    """(what was done, the bytes to send)."""
    if codec == "none" or not plain:
        return "none", plain
    packed: bytes = zlib.compress(plain) if codec == "zlib" else _arrow(codec).compress(plain, asbytes=True)
    return (codec, packed) if len(packed) < len(plain) else ("none", plain)


def expand(done: Codec, sent: bytes, size: int) -> bytes:
    """The plain bytes again; `size` is how many they are."""
    if done == "none":
        return sent
    plain: bytes = (
        zlib.decompress(sent) if done == "zlib" else _arrow(done).decompress(sent, decompressed_size=size, asbytes=True)
    )
    if len(plain) != size:
        raise ValueError(f"a batch of {size} bytes was announced; got {len(plain)}")
    return plain


@cache
def _arrow(codec: Codec) -> pa.Codec:
    return pa.Codec("lz4_raw") if codec == "lz4" else pa.Codec("zstd", compression_level=19)
