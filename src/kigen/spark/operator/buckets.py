"""Chooses buckets so that tasks spread evenly over Spark's partitions, which follow a hash of (task, bucket).

If all tasks had bucket 0, two of three tasks could share a partition while another one is empty. A task's bucket is the
first one whose hash modulo `DEALT` is the index of the task. Then n partitions get the tasks in turn, if n is a power
of two up to `DEALT`. Invariant: the bucket depends only on the task, not on the number of partitions, since it is part
of the key of the state. Cost: some hundred hashes per task, once.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

DEALT = 64
_SEED = 42
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=4096)
def bucket_of(task: str, number: int) -> int:
    """Returns the bucket of the task with this name and index."""
    text = hash_text(task, _SEED)
    return next(bucket for bucket in count() if hash_int(bucket, text) % DEALT == number % DEALT)


def hash_int(value: int, seed: int) -> int:
    """Computes Murmur3 of a 32-bit integer like Spark's `hash`, but unsigned."""
    return _finish(_mix(seed, value & _MASK), 4)


def hash_text(text: str, seed: int) -> int:
    """Computes Murmur3 of a string like Spark: whole words first, then each remaining byte as a signed word."""
    data = text.encode()
    whole = len(data) // 4 * 4
    state = seed
    for at in range(0, whole, 4):
        state = _mix(state, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[whole:]:
        state = _mix(state, (byte - 256 if byte > 127 else byte) & _MASK)
    return _finish(state, len(data))


def _mix(state: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    state ^= word * 0x1B873593 & _MASK
    state = (state << 13 | state >> 19) & _MASK
    return state * 5 + 0xE6546B64 & _MASK


def _finish(state: int, length: int) -> int:
    state ^= length
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16
