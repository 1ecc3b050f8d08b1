"""Measures what a standby costs and how fast it takes over, on real nodes, by batch and codec, beside a plain restart.

The query is a selection, or an aggregate over a window, at a steady rate.

**Overhead**: bytes to the follower, including copies of files, relative to bytes on up -> mid -> down, over `measure_s`
seconds without trouble; payload and wire.

**Recovery**: the leader is killed (SIGKILL). Detection ends when down suspects it, reconnection when the other replica
answers, data recovery when down has a new row.

**Under way**: the time of a tuple of a selection from up's queue until down has its result and up knows it, without
trouble. It is computed from what waits at up and from the rate.

**Restart**: the same pipeline without a standby. `kigen up` starts mid again from its checkpoint; the time ends when
down has a new row.

Each cell is one `kigen up` with `trials` kills. Ctrl-C ends the benchmark with what was measured so far.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.standby.pipeline import Contestant, Pipeline, Snapshot, rows_at_down, switches
from kigen_lab.bench.workspace import workspace

BATCHES = (1, 2, *range(10, 55, 5), None)
RESTART = Contestant(None)


@dataclass(frozen=True)
class StandbySettings:
    """What `kigen bench standby` measures."""

    # At this rate about as many tuples lie between two acks, one per micro-batch, as the sweep's batches hold.
    rate: float = 25.0
    batches: tuple[int | None, ...] = BATCHES
    codecs: tuple[str, ...] = ("none", "zlib", "zstd")
    more: tuple[tuple[int | None, str], ...] = ()  # single cells besides the sweeps over codecs
    copies: tuple[str, ...] = ("none", "zlib")  # codecs of copies (passive)
    trials: int = 5
    measure_s: float = 20.0
    warm_s: float = 5.0
    silence_s: float = 1.0
    query: str = "selection"  # or "window", whose live content must not be skipped
    seed: int = 1
    out: Path = Path("out/bench")

    @property
    def contestants(self) -> tuple[Contestant, ...]:
        """Returns all cells, plain restart first.

        UB sends nothing, so there is nothing to compress; AS sends single tuples, which cannot be compressed. Both run
        once.
        """
        found = [RESTART]
        for codec in self.codecs:
            found += [
                contestant(batch, codec) for batch in self.batches if codec == self.codecs[0] or batch not in (1, None)
            ]
        found += [contestant(batch, codec) for batch, codec in self.more] + [
            Contestant("passive", None, codec) for codec in self.copies
        ]
        return tuple(one for one in found if self.query == "selection" or one.standby != "upstream")


_PRESSED = tuple((batch, codec) for codec in ("zlib", "zstd") for batch in (10, 20, 30))
QUICK = StandbySettings(batches=(1, 10, 25, 50, None), codecs=("none",), more=_PRESSED, trials=1, measure_s=12.0)


def contestant(batch: int | None, codec: str) -> Contestant:
    kind = "upstream" if batch is None else "active" if batch == 1 else "lazy"
    return Contestant(kind, batch, codec)


class StandbyBench:
    """Runs all cells, one pipeline each."""

    def __init__(self, settings: StandbySettings, say: Callable[[str], None]) -> None:
        self.settings, self._say = settings, say

    @property
    def steps(self) -> int:
        return len(self.settings.contestants)

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        settings, cells, machine = self.settings, list[dict[str, Any]](), describe_machine()
        complete = True
        with workspace(settings.out) as work:
            try:
                for number, one in enumerate(settings.contestants):
                    self._say(f"{one.label}" + ("" if one.standby is None else f", {one.compress}"))
                    cells.append(self._cell(work / str(number), one))
                    advance()
            except KeyboardInterrupt:
                if len(cells) < 2:
                    raise
                complete = False
        restart = next(cell for cell in cells if cell["standby"] is None)
        rest = [cell for cell in cells if cell["standby"] is not None]
        shown = {**asdict(settings), "out": None}
        reports = {
            "bench": "standby",
            "machine": machine,
            "settings": shown,
            "complete": complete,
            "restart": restart,
            "cells": rest,
        }
        return {**reports, "figures": figures(rest, restart)}

    def _cell(self, folder: Path, one: Contestant) -> dict[str, Any]:
        settings, rng = self.settings, random.Random(self.settings.seed)
        load = round(os.getloadavg()[0], 1)
        with Pipeline(folder, one, settings.query, settings.rate, settings.seed, settings.silence_s) as pipeline:
            pipeline.steady()
            time.sleep(settings.warm_s)
            before = pipeline.snapshot()
            waiting = pipeline.kept_at_up(settings.measure_s)
            after = pipeline.snapshot()
            cell = {**asdict(one), "label": one.label, "load": load, **spent(before, after)}
            by_hand = (
                one.standby not in (None, "passive") and settings.query == "selection"
            )  # otherwise up need not keep what is under way
            cell["under_way_s"] = round(waiting / settings.rate, 3) if by_hand else None
            kills = []
            for _ in range(settings.trials):
                pipeline.steady()
                time.sleep(rng.uniform(0.5, 2.5))
                kills.append(_restarted(pipeline) if one.standby is None else _taken_over(pipeline))
        for key in kills[0]:
            cell[key] = [kill[key] for kill in kills]
        return cell


def _taken_over(pipeline: Pipeline) -> dict[str, float]:
    now = pipeline.snapshot()
    killed_s = pipeline.kill(now.leader, now.reports)

    def over(reports: dict[str, Any]) -> bool:
        found = switches(reports)
        return bool(found) and found[-1]["suspected_s"] > killed_s - 0.01 and "news_s" in found[-1]

    last = switches(pipeline.until(over, "a new row after the kill"))[-1]
    return {
        "detection_s": round(max(0.0, last["suspected_s"] - killed_s), 4),
        "reconnection_s": round(last["answered_s"] - last["suspected_s"], 4),
        "data_s": round(last["news_s"] - last["answered_s"], 4),
        "recovery_s": round(last["news_s"] - last["suspected_s"], 4),
        "outage_s": round(last["news_s"] - killed_s, 4),
    }


def _restarted(pipeline: Pipeline) -> dict[str, float]:
    now = pipeline.snapshot()
    killed_s = pipeline.kill("mid", now.reports)
    time.sleep(0.3)  # tuples that were under way have arrived
    rows = rows_at_down(pipeline.until(lambda reports: "down" in reports, "what down has"))
    pipeline.until(lambda reports: rows_at_down(reports) > rows, "new rows after the restart")
    return {"outage_s": round(time.time() - killed_s, 4)}


def spent(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """Returns bytes, tuples and CPU between two snapshots without trouble between them."""
    leader, other = after.leader, after.other

    def sent(by: str, reader: str, what: str) -> int:
        return after.sent(by, reader, what) - before.sent(by, reader, what)

    def wire(node: str) -> int:
        return after.wire(node) - before.wire(node)

    primary = {
        "payload": sent("up", leader, "payload_bytes") + sent(leader, "down", "payload_bytes"),
        "wire": wire(leader) + wire("down"),
    }
    copies = after.copied(other) - before.copied(other)
    backup = {"payload": sent("up", other, "payload_bytes") + copies, "wire": wire(other)}
    tuples, plain = sent("up", leader, "tuples"), sent("up", other, "plain_bytes")
    cpu_us = {name: 1e6 * (after.cpu_s[name] - before.cpu_s[name]) / max(tuples, 1) for name in after.reports}
    names = {leader: "leader", other: "standby"}
    return {
        "undisturbed": leader == before.leader,
        "seconds": round(after.at_s - before.at_s, 1),
        "tuples": {"leader": tuples, "standby": sent("up", other, "tuples")},
        "primary_bytes": primary,
        "backup_bytes": backup,
        "backup_packed": round(sent("up", other, "payload_bytes") / plain, 4)
        if plain
        else None,  # relative to the same messages without compression
        "backup_messages": sent("up", other, "messages"),
        "overhead": {what: round(backup[what] / max(primary[what], 1), 4) for what in primary},
        "cpu_us_a_tuple": {names.get(name, name): round(us) for name, us in cpu_us.items()},
    }


def figures(cells: list[dict[str, Any]], restart: dict[str, Any]) -> dict[str, Any]:
    """Returns the figures to reach: recovery of batches up to 25 relative to plain restart, and CPU of the leader
    relative to a node without standby.
    """
    plain_s = mean(restart["outage_s"])
    small = [cell for cell in cells if cell["batch"] is not None and cell["batch"] <= 25]
    alone = restart["cpu_us_a_tuple"]["leader"]
    return {
        "restart_s": round(plain_s, 3),
        "recovery_by_restart": {
            f"{c['label']}, {c['compress']}": round(mean(c["recovery_s"]) / plain_s, 4) for c in cells
        },
        "outage_by_restart": {f"{c['label']}, {c['compress']}": round(mean(c["outage_s"]) / plain_s, 4) for c in cells},
        "data_by_under_way": {
            f"{c['label']}, {c['compress']}": round(mean(c["data_s"]) / c["under_way_s"], 2)
            for c in cells
            if c["under_way_s"]
        },
        "fifth_reached": bool(small) and all(mean(c["recovery_s"]) <= plain_s / 5 for c in small),
        "leader_cpu_by_alone": {
            f"{c['label']}, {c['compress']}": round(c["cpu_us_a_tuple"]["leader"] / alone, 2) for c in cells
        },
    }


def settings_of(quick: bool, **given: Any) -> StandbySettings:
    """Returns the settings for the options of the command. If codecs are given, only these run."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if "codecs" in chosen:
        chosen |= {"more": (), "copies": chosen["codecs"]}
    return replace(QUICK if quick else StandbySettings(), **chosen)
