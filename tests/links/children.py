"""Processes that tests kill: `python children.py appender|server|writer ...`. Each tuple has its sequence number
as id.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
from links.reference import SCHEMA, SECURITY, batch

from kigen.links import Link, LinkServer, LinkWriter
from kigen.queue import Queue, QueueSettings

SOAK = "KIGEN_SOAK" in os.environ  # run the long forms of the tests
WIDE = pa.schema([("id", pa.int64()), ("filling", pa.binary(1000))])


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Starts this file as a process."""
    return subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE)


def wide(first: int, count: int) -> pa.RecordBatch:
    filling = pa.array([b"%01000d" % i for i in range(first, first + count)], pa.binary(1000))
    return pa.RecordBatch.from_arrays([pa.array(range(first, first + count), pa.int64()), filling], schema=WIDE)


def durable(folder: str, segment_bytes: int) -> QueueSettings:
    return QueueSettings(folder=Path(folder), durable=True, segment_bytes=segment_bytes, memory_bytes=1 << 16)


def appender(folder: str, seed: str) -> None:
    """Appends units of several large blocks to files, and prints its position after each."""
    rng = random.Random(int(seed))
    queue = Queue("s", WIDE, durable(folder, 8 << 20))
    at = queue.open_producer().next
    while True:
        sizes = [rng.randint(1, 400) for _ in range(rng.randint(1, 4))]
        firsts = [at + sum(sizes[:i]) for i in range(len(sizes))]
        at = queue.append([wide(f, n) for f, n in zip(firsts, sizes, strict=True)], at, progress_us=at + sum(sizes)).end
        os.write(1, f"{at}\n".encode())


def server(folder: str, address: str) -> None:
    queue = Queue("s", SCHEMA, durable(folder, 1 << 16))
    queue.open_reader("down")
    queue.require(["down"])
    with LinkServer([queue], address, SECURITY):
        threading.Event().wait()


def writer(address: str, total: str, seed: str) -> None:
    rng = random.Random(int(seed))
    with Link(address, SECURITY) as link, LinkWriter(link, "s", compress=rng.choice(["none", "zlib"])) as out:
        while out.next < int(total):
            stop = min(int(total), out.next + rng.randint(1, 300))
            out.append(batch(list(range(out.next, stop))), progress_us=stop)


if __name__ == "__main__":
    {"appender": appender, "server": server, "writer": writer}[sys.argv[1]](*sys.argv[2:])
