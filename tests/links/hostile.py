"""Sends blocks and requests like a hostile neighbour: `python hostile.py records|requests SEED COUNT`, in a process
that may crash.

A mutated record with corrected checksums reaches everything behind the checks of the checksums. If it happens to be a
block of the right columns, it may be stored (other values are no error); then it must be readable to the last
character.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

from kigen.links import LinkServer
from kigen.links.flight.calls import serve_append, serve_read
from kigen.links.flight.counters import TrafficCounter
from kigen.links.flight.protocol import ACTIONS, APPEND, READ, parse
from kigen.queue import Queue, QueueError, QueueSettings
from kigen.queue.payload import CODECS, Encoded, encode
from kigen.queue.record import SIZE, TUPLES, Record, checksum

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("flag", pa.bool_()), ("ts", pa.timestamp("us"))])
_HEAD = struct.Struct("<4sBBBBqqiiqqqI")
NASTY = [0, 1, 7, 8, 63, 64, 127, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -1, -(2**31), -(2**63)]
VALUES: list[Any] = [
    *NASTY,
    1e308,
    float("nan"),
    float("inf"),
    -0.5,
    None,
    True,
    "",
    "s",
    "x" * 200,
    "\0",
    "../../x",
    [],
    [[[]]],
    {},
    [1] * 3000,
]


def rows(count: int) -> pa.RecordBatch:
    columns = [
        list(range(count)),
        [f"row {i} ä" if i % 5 else None for i in range(count)],
        [i % 2 == 0 for i in range(count)],
        list(range(count)),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(v, f.type) for v, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def poisoned(count: int = 50) -> Encoded:
    """Returns a block whose second text begins two gigabytes after the first. It looks valid, and reading it would
    crash.
    """
    good = encode(rows(count))
    offsets = struct.pack("<3i", 0, 0, len("row 1 ä".encode()))
    data = bytearray(good.data)
    at = data.find(offsets) + 4
    data[at : at + 4] = struct.pack("<i", 2**31 - 64)
    return Encoded(pa.py_buffer(bytes(data)), 0, count, len(data), checksum(bytes(data)))


def message(encoded: Encoded, **fields: Any) -> bytes:
    record = Record(TUPLES, encoded.data.size, encoded.crc, codec=encoded.codec, count=encoded.count, epoch=1, **fields)
    return record.pack() + bytes(encoded.data)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Returns bytes with some of them changed, cut off, doubled or replaced by other numbers."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(changed))
        match rng.randrange(6):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at] = rng.choice([0, 1, 127, 128, 255])
            case 2:
                at -= at % 4
                changed[at : at + 4] = (rng.choice(NASTY) & 0xFFFFFFFF).to_bytes(4, "little")
            case 3:
                at -= at % 8
                changed[at : at + 8] = (rng.choice(NASTY) & (2**64 - 1)).to_bytes(8, "little")
            case 4:
                del changed[at : at + rng.randint(1, 64)]
            case 5:
                changed[at:at] = changed[at : at + rng.randint(1, 64)]
        if not changed:
            changed = bytearray(b"\0")
    return bytes(changed)


def mended(data: bytes) -> bytes:
    """Returns the record with its length and both checksums corrected, as only an attacker would send it."""
    if len(data) < SIZE:
        return data
    fields = list(_HEAD.unpack_from(data))
    fields[5], fields[-1] = len(data) - SIZE, zlib.crc32(data[SIZE:])
    head = _HEAD.pack(*fields)
    return head + struct.pack("<I", zlib.crc32(head)) + data[SIZE:]


def records(seed: int, count: int) -> dict[str, int]:
    rng, told = random.Random(seed), {"refused": 0, "stored": 0}
    originals = [message(encode(rows(n), codec)) for n in (1, 9, 50, 400) for codec in CODECS.values()]
    for _ in range(count):
        data = rng.choice(originals)
        part = rng.random()
        if part < 0.5:  # mutate Arrow's message and its content
            data = mended(data[:SIZE] + mutated(data[SIZE:], rng))
        elif part < 0.9:
            data = mended(mutated(data, rng))
        else:
            data = mutated(data, rng)
        with Queue("s", SCHEMA, QueueSettings(max_bytes=1 << 24, memory_bytes=1 << 24)) as queue:
            queue.open_producer("p", 1, counts="batches")
            how = {"stream": "s", "producer": "p", "epoch": 1, "wait_s": 0.0, "call": ""}
            try:
                list(serve_append(queue, how, [pa.py_buffer(data)], TrafficCounter(), lambda: None))
            except QueueError:
                told["refused"] += 1
                assert queue.status()["end"] == 0, "nothing that was refused is stored"
                continue
            told["stored"] += 1
            got = queue.read(0)
            batch = got.batch()
            batch.set_column(
                3, "ts", batch.column(3).view(pa.int64())
            ).to_pylist()  # Python's own times end with the year 9999
            list(got.packed(CODECS["zlib"]))
    return told


class _Context:
    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def is_cancelled(self) -> bool:
        return False


def requests(seed: int, count: int) -> dict[str, int]:
    rng, told = random.Random(seed), {"refused": 0, "answered": 0}
    queue = Queue("s", SCHEMA)
    queue.open_producer("p", 1)
    queue.append(rows(9), producer="p", epoch=1)
    with LinkServer([queue]) as server:
        service = server._service
        for _ in range(count):
            kind = rng.choice([*ACTIONS, "read", "append"])
            spec = READ if kind == "read" else APPEND if kind == "append" else ACTIONS[kind]
            fields = {
                name: rng.choice(VALUES) if rng.random() < 0.5 else _usual(name) for name in spec if rng.random() < 0.9
            }
            body = json.dumps(fields).encode()
            if rng.random() < 0.3 and body:
                body = mutated(body, rng)
            if rng.random() < 0.01:
                body = b"[" * 60_000
            try:
                if kind not in ("read", "append"):
                    service._act(_Context(), kind, pa.py_buffer(body))
                else:
                    how = parse(body, spec)
                    assert how["wait_s"] <= 3600
                    assert how.get("follow_s", 0) <= 60
                    assert how.get("max_tuples", 1) >= 1
                    if kind == "read" and not how["wait_s"] and not how["follow_s"]:
                        list(serve_read(server.queue(how["stream"]), how, TrafficCounter(), lambda: None))
                told["answered"] += 1
            except QueueError:
                told["refused"] += 1
            status = queue.status()
            assert len(status["readers"]) <= 256
            assert len(status["producers"]) <= 256
            assert all(len(name) <= 128 for name in (*status["readers"], *status["producers"]))
            assert len(server.asked) <= 256
    return told


def _usual(name: str) -> Any:
    usual = {
        "stream": "s",
        "counts": "tuples",
        "compress": "none",
        "readers": [],
        "pieces": [],
        "version": 1,
        "call": "c",
        "note": "",
    }
    text = {"producer": "p", "reader": "r", "name": "r"}
    return usual.get(name, text.get(name, False if name in ("skip_trimmed", "may_be_ahead") else 1))


if __name__ == "__main__":
    done = {"records": records, "requests": requests}[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(done))
