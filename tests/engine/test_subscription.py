"""Subscriptions without Spark: the relation first, then changes; the end of a run; `for` and `async for`."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

from kigen.engine.subscription import Subscription


class Log:
    """Stands for the log of changes of a run."""

    added_by = 0

    def __init__(self, is_stream: bool = False) -> None:
        self.is_stream, self._data = is_stream, b""
        self._rows: list[bytes] = []

    @property
    def end(self) -> int:
        return len(self._data)

    def add(self, op: str, at: int, **row: Any) -> None:
        text = json.dumps(row).encode()
        self._rows.append(text) if op == "insert" else self._rows.remove(text)
        self._data += json.dumps({"_op": op, "_at": at, **row}).encode() + b"\n"

    def read(self, after: int, most_bytes: int = 60) -> tuple[bytes, int]:
        end = self._data.find(b"\n", after) + 1
        return self._data[after:end], end

    def current(self) -> tuple[list[bytes], str | None, int]:
        return list(self._rows), "then", self.end


def test_it_begins_with_the_relation() -> None:
    log = Log()
    log.add("insert", 1, k="a")
    log.add("insert", 2, k="b")
    log.add("delete", 3, k="a")
    subscription = Subscription(lambda: log, lambda: True)
    log.add("insert", 4, k="c")
    assert subscription.take() == [{"_op": "insert", "_at": "then", "k": "b"}]
    assert subscription.take() == [{"_op": "insert", "_at": 4, "k": "c"}]
    assert subscription.take() == []
    assert subscription.relation() == [{"k": "b"}, {"k": "c"}]


def test_a_stream_begins_with_what_comes_next() -> None:
    log = Log(is_stream=True)
    log.add("insert", 1, k="a")
    subscription = Subscription(lambda: log, lambda: True)
    log.add("insert", 2, k="b")
    assert [change["k"] for change in subscription.take()] == ["b"]


def test_it_waits_and_ends_with_the_run() -> None:
    log, active = Log(), threading.Event()
    active.set()
    subscription = Subscription(lambda: log, active.is_set)

    def work() -> None:
        for i in range(20):
            log.add("insert", i, k=i)
            time.sleep(0.002)
        active.clear()

    worker = threading.Thread(target=work)
    worker.start()
    assert [change["k"] for change in subscription] == list(range(20))
    worker.join()


def test_async_and_close() -> None:
    log = Log()
    for i in range(3):
        log.add("insert", i, k=i)
    subscription = Subscription(lambda: log, lambda: True)

    async def follow() -> list[int]:
        seen = []
        async for change in subscription:
            seen.append(change["k"])
            if len(seen) == 3:
                subscription.close()
        return seen

    assert asyncio.run(follow()) == [0, 1, 2]
