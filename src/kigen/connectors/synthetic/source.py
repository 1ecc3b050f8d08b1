"""Generates `FROM synthetic (rate = 500, arrivals = 'poisson', seed = 7, duration = '60 s')`: a seeded stream with
random access.

Invariant: tuple i is the same in every run, range and process; its scheduled time is the start plus the i-th arrival's
offset. When draining, the start is the option `start` or the Unix epoch, and all tuples are available at once. When
live, the start is when the run began, and a tuple appears at its scheduled time, or `delay` after it, as if it had
travelled that long.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kigen.connectors.casting import iso_us
from kigen.connectors.options import OptionError, duration_us, number, whole
from kigen.connectors.requests import SourceRequest
from kigen.connectors.source_base import InputError, LiveSource, Position, Range, Rows, Times
from kigen.connectors.synthetic.arrival_times import ArrivalProcess, Bursty, Constant, Poisson
from kigen.connectors.synthetic.generators import column_generator
from kigen.connectors.synthetic.spec import SPEC
from kigen.lifetimes.blocks import FOREVER

_FORESEEN = 64  # tuples: enough to make calls cheap, few enough to be kept for hundreds of streams


class SyntheticSource(LiveSource):
    def __init__(self, asked: SourceRequest) -> None:
        stream, draining, start_us = asked.stream, asked.draining, asked.start_us
        self._owner = f"stream '{stream.name}'"
        option = stream.source.option
        self.stream, self.live = stream, not draining
        seed = whole(self._owner, "seed", option("seed", 0))
        self._arrivals = self._make_arrivals(seed)
        texts = {key: value for key, value in stream.source.options if key not in SPEC.options}
        self._columns = [column_generator(stream.name, seed, c, texts.get(c.name)) for c in stream.schema]
        self._duration_us = (
            None if option("duration") is None else duration_us(self._owner, "duration", option("duration"))
        )
        self._rows = None if option("rows") is None else whole(self._owner, "rows", option("rows"))
        self._delay_us = 0 if option("delay") is None else duration_us(self._owner, "delay", option("delay"))
        self._start_us = self._start(option("start"), start_us)
        self._total: int | None = None
        self._counted = False

    def initial(self) -> Position:
        if not self.live and self._duration_us is None and self._rows is None:
            message = (
                f"{self._owner} never ends, so it cannot be drained: write duration = '60 s' or rows = 1000 "
                "among its options"
            )
            raise InputError(message)
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        first, total = int(position["index"]), self.total()
        assert total is not None, "an endless stream is not drained"
        end = max(first, min(total, first + max(1, max_rows)))
        last = self._time_us(end - 1) if end > first else None
        return Range(self.stream.name, position, {"index": end}, rows=end - first, last_ts_us=last, ended=end == total)

    def arrived_by(self, now_us: int) -> int:
        scheduled, total = self._arrivals.count_before(now_us - self._delay_us - self._start_us + 1), self.total()
        return scheduled if total is None else min(scheduled, total)

    def arrivals_us(self, first: int, end: int) -> Times:
        return self._arrivals.offsets_us(first, end) + self._start_us

    def complete_us(self, now_us: int) -> int:
        return now_us - self._delay_us

    def next_arrival_us(self, known: int, now_us: int) -> int:
        return FOREVER if known == self.total() else self._time_us(known) + self._delay_us

    def foreseen_us(self, known: int) -> Times:
        total, end = self.total(), known + (0 if self._delay_us else _FORESEEN)
        return self.arrivals_us(known, end if total is None else max(known, min(end, total)))

    def completes_at_us(self, watermark_us: int) -> int:
        return watermark_us + self._delay_us

    def read(self, piece: Range) -> Rows:
        first, end = int(piece.start["index"]), int(piece.end["index"])
        times = self.arrivals_us(first, end)
        columns = [make(first, end, times) for make in self._columns]
        at = self.stream.timestamp
        ts = pa.array(times) if at is None else columns[at].view(pa.int64())
        table = pa.table([*columns, ts], names=[*(f"c{i}" for i in range(len(columns))), "_ts"])
        return Rows(table, arrivals_us=times if self.live else None)

    def fraction(self, position: Position) -> float | None:
        total = self.total()
        return None if total is None else min(1.0, int(position["index"]) / total) if total else 1.0

    def total(self) -> int | None:
        if not self._counted:
            self._counted = True
            by_time = None if self._duration_us is None else self._arrivals.count_before(self._duration_us)
            self._total = min((n for n in (by_time, self._rows) if n is not None), default=None)
        return self._total

    def _time_us(self, index: int) -> int:
        return self._start_us + self._arrivals.offset_us(index)

    def _start(self, option: Any, start_us: int | None) -> int:
        at = 0 if option is None else iso_us(str(option))
        if at is None:
            raise OptionError(
                f"{self._owner}: start must be a time such as '2026-01-02T03:04:05Z', not {option!r}", "start"
            )
        if self.live and start_us is None:
            raise InputError(f"{self._owner} is live and needs the time at which the run began")
        return at if start_us is None or not self.live else start_us

    def _make_arrivals(self, seed: int) -> ArrivalProcess:
        option, owner = self.stream.source.option, self._owner
        if option("rate") is None:
            raise OptionError(
                f"{owner}: connector 'synthetic' needs a rate in tuples per second: write rate = 100", "rate"
            )
        rate = number(owner, "rate", option("rate"))
        kind = option("arrivals", "constant")
        if kind == "constant":
            return Constant(rate)
        if kind == "poisson":
            return Poisson(rate, seed, self.stream.name)
        if kind != "bursty":
            raise OptionError(f"{owner}: arrivals must be 'constant', 'poisson' or 'bursty', not {kind!r}", "arrivals")
        every = duration_us(owner, "every", option("every", "10 s"))
        lasting = duration_us(owner, "lasting", option("lasting", "2 s"))
        if lasting >= every:
            raise OptionError(f"{owner}: lasting must be shorter than every", "lasting")
        phase = 0 if option("phase") is None else duration_us(owner, "phase", option("phase"))
        if phase + lasting > every:
            raise OptionError(
                f"{owner}: a burst must end within its period: phase + lasting must be at most every", "phase"
            )
        return Bursty(
            Poisson(rate, seed, self.stream.name), number(owner, "burst", option("burst", 4)), every, lasting, phase
        )
