"""Gives random access to random numbers: chunk k of a named series has its own generator.

Invariant: the numbers of a chunk depend on (seed, names, k) alone, so any process can generate any range of a synthetic
stream, however it was cut.
"""

from __future__ import annotations

import hashlib

import numpy as np

CHUNK = 8192  # tuples


def series_key(seed: int, *names: str) -> int:
    """Returns the 128-bit key of one series, such as a column of a stream."""
    text = "\0".join((str(seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def chunk_generator(key: int, chunk: int) -> np.random.Generator:
    # The chunk is the highest word of the counter, so no chunk can run into the next.
    return np.random.Generator(np.random.Philox(key=key, counter=chunk << 192))
