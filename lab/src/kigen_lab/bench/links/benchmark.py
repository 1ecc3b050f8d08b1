"""Measures what a link between two processes on loopback carries with acknowledgements, and how long one block takes.

pull: the far process appends to its queue. This process follows over Flight, decodes and acknowledges; an ack covers
all blocks that arrived while the ack before was under way. push: this process appends over Flight, and the server
acknowledges every block when it is as durable as asked. The far process reads, decodes and acknowledges. Throughput is
measured from the first append to the last ack. Latency is measured one block at a time: from a stamp just before the
append to the decoded block in the other process (pull), and from append to ack (push). Every tuple is counted on
arrival; a wrong count ends the benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kigen.links import Acker, Link, LinkWriter, Security
from kigen_lab.bench.links.far_side import READER, SCHEMA, blocks, stamped
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.worker import Contestant, ContestantFailed
from kigen_lab.bench.workspace import workspace

DURABILITY: dict[str, str | None] = {"memory": None, "files": "never", "files, fsync": "always"}
TARGET = 1_000_000  # tuples per second
_STREAM = "readings"


@dataclass(frozen=True)
class LinksSettings:
    """What `kigen bench links` measures."""

    trials: int = 3
    tuples: int = 4_000_000  # per run
    sizes: tuple[int, ...] = (1_000, 10_000, 65_536)  # tuples per block
    codecs: tuple[str, ...] = ("none", "lz4", "zstd", "zlib")
    samples: int = 500  # blocks for latency
    out: Path = Path("out/bench")


QUICK = LinksSettings(trials=1, tuples=1_000_000, sizes=(10_000, 65_536), samples=100)
Cell = dict[str, Any]


def cells(settings: LinksSettings) -> list[Cell]:
    """Returns what is measured: every direction, durability and size without compression, then codecs at the largest
    size in memory.
    """
    found: list[Cell] = []
    for way in ("pull", "push"):
        for durability in DURABILITY:
            found += [
                {"way": way, "durability": durability, "size": size, "compress": "none"} for size in settings.sizes
            ]
        largest = max(settings.sizes)
        found += [
            {"way": way, "durability": "memory", "size": largest, "compress": c} for c in settings.codecs if c != "none"
        ]
    return found


def latency_cells() -> list[Cell]:
    return [{"way": w, "durability": d, "size": s} for w in ("pull", "push") for d in DURABILITY for s in (1, 1_000)]


def turns(settings: LinksSettings) -> int:
    return settings.trials * len(cells(settings)) + len(latency_cells())


def run_links_bench(settings: LinksSettings, say: Callable[[str], None], advance: Callable[[], None]) -> dict[str, Any]:
    machine = describe_machine()
    rates, delays = cells(settings), latency_cells()
    with workspace(settings.out) as work, Contestant("kigen_lab.bench.links.far_side", work / "far.log") as far:
        bench = _Bench(far, work)
        for trial in range(settings.trials):
            for cell in rates:
                say(
                    f"{cell['way']}, {cell['durability']}, blocks of {cell['size']:,}, {cell['compress']}, trial "
                    f"{trial + 1}"
                )
                tuples = settings.tuples // 8 if cell["compress"] == "zlib" else settings.tuples  # zlib is that slow
                cell.setdefault("trials", []).append(bench.throughput(cell, tuples))
                advance()
        for cell in delays:
            say(f"latency, {cell['way']}, {cell['durability']}, block of {cell['size']:,}")
            cell.update(bench.latency(cell, settings.samples))
            advance()
    for cell in rates:
        cell.update(
            {
                k: median(t[k] for t in cell["trials"])
                for k in ("tuples_s", "cpu_us_tuple", "payload_bytes_tuple", "wire_bytes_tuple")
            }
        )
    plain = [c for c in rates if c["compress"] == "none" and c["size"] == max(settings.sizes)]
    least = min(plain, key=lambda c: float(c["tuples_s"]))
    return {
        "bench": "links",
        "machine": machine,
        "settings": {k: v for k, v in asdict(settings).items() if k != "out"},
        "throughput": rates,
        "latency": delays,
        "figure": {
            "what": "tuples per second with acks on, the slowest durability and way at the largest block",
            "target": TARGET,
        }
        | {
            "reached": least["tuples_s"],
            "met": least["tuples_s"] >= TARGET,
            "where": f"{least['way']}, {least['durability']}",
        },
    }


class _Bench:
    """Runs cells against one far process."""

    def __init__(self, far: Contestant, work: Path) -> None:
        self._far, self._work, self._runs = far, work, 0

    def throughput(self, cell: Cell, tuples: int) -> dict[str, float]:
        count = -(-tuples // cell["size"])
        total = count * cell["size"]
        with self._link(cell["durability"]) as link:
            pull = cell["way"] == "pull"
            run = self._pull if pull else self._push
            seconds, cpu_s, payload_bytes = run(link, cell["size"], count, cell["compress"])
            wire = link.wire()
        self._far.ask(do="close")
        carried = wire.received if pull else wire.sent
        return {
            "tuples_s": total / seconds,
            "cpu_us_tuple": cpu_s * 1e6 / total,
            "payload_bytes_tuple": payload_bytes / total,
            "wire_bytes_tuple": carried / total,
        }

    def latency(self, cell: Cell, samples: int) -> dict[str, float]:
        with self._link(cell["durability"]) as link:
            if cell["way"] == "pull":
                self._far.ask(do="produce", tuples=cell["size"], blocks=samples, pause_s=0.003)
                found = [
                    self._arrived(batch) for batch in _followed(link, samples * cell["size"], cell["size"], "none")
                ]
                self._far.ask(do="wait")
            else:
                found = self._acked(link, cell["size"], samples)
        self._far.ask(do="close")
        p50, p95, p99 = np.percentile(
            np.array(found[samples // 10 :]) / 1e6, [50, 95, 99]
        )  # the first blocks find everything cold
        return {"p50_ms": round(float(p50), 3), "p95_ms": round(float(p95), 3), "p99_ms": round(float(p99), 3)}

    def _link(self, durability: str) -> Link:
        self._runs += 1
        answer = self._far.ask(
            do="open", stream=_STREAM, folder=str(self._work / str(self._runs)), fsync=DURABILITY[durability]
        )
        return Link(answer["address"], Security(answer["token"]))

    def _pull(self, link: Link, size: int, count: int, compress: str) -> tuple[float, float, int]:
        started_ns = self._far.ask(do="produce", tuples=size, blocks=count)["started_ns"]
        cpu_s = time.process_time()
        got = sum(batch.num_rows for batch in _followed(link, count * size, 1 << 20, compress))
        seconds = (time.monotonic_ns() - started_ns) / 1e9
        cpu_s = time.process_time() - cpu_s + self._far.ask(do="wait")["cpu_s"]
        if got != count * size:
            raise ContestantFailed(f"{count * size:,} tuples were sent, {got:,} arrived")
        return seconds, cpu_s, link.received.payload_bytes

    def _push(self, link: Link, size: int, count: int, compress: str) -> tuple[float, float, int]:
        made = blocks(size)
        self._far.ask(do="consume", total=count * size)
        started_ns, cpu_s = time.monotonic_ns(), time.process_time()
        with LinkWriter(link, _STREAM, compress=compress) as writer:
            for i in range(count):
                writer.append(made[i % len(made)])
            writer.flush()
            payload_bytes = writer.sent.payload_bytes
        cpu_s = time.process_time() - cpu_s
        answer = self._far.ask(do="wait")
        if answer["status"]["end"] != count * size:
            raise ContestantFailed(f"{count * size:,} tuples were sent, {answer['status']['end']:,} arrived")
        return (answer["done_ns"] - started_ns) / 1e9, cpu_s + answer["cpu_s"], payload_bytes

    def _acked(self, link: Link, size: int, samples: int) -> list[int]:
        (block,) = blocks(size, different=1)
        found = []
        self._far.ask(do="consume", total=samples * size)
        with LinkWriter(link, _STREAM) as writer:
            for _ in range(samples):
                time.sleep(0.003)
                started = time.monotonic_ns()
                writer.append(stamped(block))
                writer.flush()
                found.append(time.monotonic_ns() - started)
        self._far.ask(do="wait")
        return found

    @staticmethod
    def _arrived(batch: Any) -> int:
        return time.monotonic_ns() - int(batch.column(0)[0].as_py())


def _followed(link: Link, total: int, max_tuples: int, compress: str) -> Iterator[Any]:
    """Reads, decodes and acknowledges every block as it arrives. Returns after the last ack."""
    with Acker(link, _STREAM, READER) as acker:
        for piece in link.follow(_STREAM, 0, reader=READER, max_tuples=max_tuples, compress=compress):
            for batch in piece.batches:
                assert batch.schema.equals(SCHEMA)
                yield batch
            acker.done(piece.next)
            if piece.next >= total:
                return
