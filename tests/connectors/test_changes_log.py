"""The log of changes that readers follow: whole lines, restarts, segments that are removed, and the relation."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from kigen.connectors.changes_log import ChangesLog, EventGone
from kigen.connectors.changes_log import log as log_module
from kigen.plan.types import Column, Type

SCHEMA = (Column("k", Type.STRING), Column("v", Type.BIGINT))


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def opened(
    folder: Path, position: dict[str, int] | None = None, keep_s: float = 1e9, clock: Clock | None = None
) -> ChangesLog:
    made = ChangesLog(folder, SCHEMA, False, keep_s, *([clock] if clock else []))
    made.syncs = False
    made.open(position)
    return made


def changes(*rows: tuple[str, str, int | None, int]) -> pa.Table:
    ops, keys, values, at = ([row[i] for row in rows] for i in range(4))
    return pa.table({"c0": keys, "c1": pa.array(values, pa.int64()), "_at": pa.array(at, pa.int64()), "_op": ops})


def rows(log: ChangesLog) -> list[tuple[str, int | None]]:
    return sorted((row["k"], row["v"]) for row in map(json.loads, log.current()[0]))


def test_lines_are_seen_after_the_commit_and_their_ids_continue(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write(changes(("insert", 'a,"b', 1, 0), ("insert", "c", None, 1_000_000)))
    assert log.read(0) == (b"", 0)
    position = log.commit()
    data, last = log.read(0)
    lines = data.splitlines(keepends=True)
    assert [json.loads(line) for line in lines] == [
        {"_op": "insert", "_at": "1970-01-01T00:00:00.000000Z", "k": 'a,"b', "v": 1},
        {"_op": "insert", "_at": "1970-01-01T00:00:01.000000Z", "k": "c", "v": None},
    ]
    assert position == {"bytes": last} == {"bytes": len(data)}
    assert log.read(len(lines[0])) == (lines[1], last)
    assert log.read(0, most_bytes=3) == (lines[0], len(lines[0])), "at least one whole line"
    assert rows(log) == [('a,"b', 1), ("c", None)]
    assert log.current()[1:] == ("1970-01-01T00:00:01.000000Z", last)
    for wrong in (3, last + 1):
        with pytest.raises(EventGone):
            log.read(wrong)
    log.close()


def test_equal_rows_are_counted(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write(changes(("insert", "a", 1, 0), ("insert", "a", 1, 0)))
    log.commit()
    assert rows(log) == [("a", 1), ("a", 1)]
    log.write(changes(("delete", "a", 1, 5)))
    log.commit()
    assert rows(log) == [("a", 1)]
    log.write(changes(("delete", "a", 1, 6)))
    log.commit()
    assert rows(log) == []
    log.close()


def test_a_restart_cuts_back_to_the_position(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write(changes(("insert", "a", 1, 0)))
    position = log.commit()
    log.write(changes(("delete", "a", 1, 5), ("insert", "b", 2, 5)))
    log.commit()  # the sink log does not have it
    log.close()
    log = opened(tmp_path, position)
    assert rows(log) == [("a", 1)]
    assert log.end == position["bytes"]
    log.close()
    log = opened(tmp_path)  # a new run begins
    assert (rows(log), log.end) == ([], 0)
    log.close()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write(changes(("insert", "a", 1, 0)))
    position = log.commit()
    log.close()
    next(tmp_path.glob("*.jsonl")).write_bytes(b"")
    with pytest.raises(ValueError, match=r"bytes required, found 0: put the file back"):
        opened(tmp_path, position)


@pytest.mark.parametrize("seed", range(20))
def test_any_restart_gives_the_relation_of_its_position(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random batches over small segments; now and then the log is opened again at one of the last two positions."""
    monkeypatch.setattr(log_module, "SEGMENT_BYTES", 400)
    monkeypatch.setattr(log_module, "_UNAPPLIED_BYTES", 150)
    rng = random.Random(seed)
    log, bag, at = opened(tmp_path), Counter[tuple[str, int]](), 0
    history: list[tuple[dict[str, int] | None, Counter[tuple[str, int]]]] = [(None, Counter())]
    for _ in range(60):
        batch = []
        for _ in range(rng.randrange(4)):
            at += 1
            if bag and rng.random() < 0.45:
                row = rng.choice(sorted(bag.elements()))
                bag -= Counter([row])
                batch.append(("delete", *row, at))
            else:
                row = (rng.choice("abc"), rng.randrange(3))
                bag[row] += 1
                batch.append(("insert", *row, at))
        if batch:
            log.write(changes(*batch))
        history.append((log.commit(), Counter(bag)))
        if rng.random() < 0.2:
            log.close()
            if rng.random() < 0.5:
                history.pop()
            log = opened(tmp_path, history[-1][0])
            bag = Counter(history[-1][1])
        if rng.random() < 0.3:
            assert rows(log) == sorted(bag.elements())
    assert rows(log) == sorted(bag.elements())
    assert len(list(tmp_path.glob("*.jsonl"))) > 3
    log.close()


def test_old_segments_are_removed_and_readers_are_told(tmp_path: Path) -> None:
    clock = Clock()
    clock.now = max(clock.now, __import__("time").time())
    log = opened(tmp_path, keep_s=100, clock=clock)
    first = None
    for i in range(30):
        log.write(changes(("insert", "a", i, i)))
        first = first or log.commit()["bytes"]
        log.commit()
        clock.now += 60
    assert 2 <= len(list(tmp_path.glob("*.jsonl"))) <= 4
    with pytest.raises(EventGone, match="is not kept"):
        log.read(first)
    assert len(rows(log)) == 30, "the relation is whole, though its first lines are gone"
    position = log.commit()
    log.close()
    log = opened(tmp_path, position)
    assert len(rows(log)) == 30
    log.close()
