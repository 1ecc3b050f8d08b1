"""Random numbers by place instead of by order: chunk k of a named series has a generator of its own.

Invariant: what a chunk draws depends on (seed, names, k) alone, so any range of a synthetic stream can be made
anywhere, however it was cut.
"""

from __future__ import annotations

import hashlib

import numpy as np

CHUNK = 8192  # tuples


def series_key(seed: int, *names: str) -> int:
    """A 128-bit key of one series, such as a stream's column."""
    text = "\0".join((str(seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def chunk_generator(key: int, chunk: int) -> np.random.Generator:
    # The chunk is the counter's highest word: no chunk can run into the next.
    return np.random.Generator(np.random.Philox(key=key, counter=chunk << 192))
