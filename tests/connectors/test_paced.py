"""Recorded files live: rows arrive by their timestamps, at any speed, the same after every restart and in every worker."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from kigen.connectors import InputError, LiveSource, Range, open_source
from kigen.connectors.source_base import place_of_range, place_text
from kigen.language import CqlErrors
from kigen.plan import bind
from kigen.plan.logical import SourceStream

START_US = 1_800_000_000_000_000
BASE_US = 1_767_225_600_000_000  # 2026-01-01


def stream_of(options: str, clauses: str = "LATENESS 10 SECONDS") -> SourceStream:
    text = "CREATE STREAM s (n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts {} FROM jsonl (path = 's.jsonl', {});"
    return bind(text.format(clauses, options) + "CREATE QUERY q AS SELECT n FROM s [NOW];").stream("s")


def write(folder: Path, seconds: list[int]) -> None:
    with open(folder / "s.jsonl", "w", encoding="utf-8") as file:
        for n, at in enumerate(seconds):
            file.write(json.dumps({"n": n, "ts": f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z"}) + "\n")


def opened(stream: SourceStream, folder: Path) -> LiveSource:
    source = open_source(stream, str(folder), False, START_US)
    assert isinstance(source, LiveSource)
    return source


def test_rows_arrive_by_their_timestamps(tmp_path: Path) -> None:
    write(tmp_path, [0, 1, 5, 6, 5, 20])
    source = opened(stream_of("pace = 2, pace_from = '2026-01-01T00:00:05Z'"), tmp_path)
    source.resume({0: None})
    assert source.arrived_by(START_US - 1) == 0
    assert source.arrived_by(START_US) == 3
    assert source.arrived_by(START_US + 500_000) == 5, "a row that is out of order comes with the one before it"
    assert source.total() is None or source.total() == 6
    assert source.arrived_by(START_US + 7_500_000) == 6
    assert source.total() == 6
    assert (source.arrivals_us(0, 6) - START_US).tolist() == [0, 0, 0, 500_000, 500_000, 7_500_000]


@pytest.mark.parametrize("seed", range(6))
def test_any_cut_and_restart_gives_the_same_rows(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    seconds = sorted(chance.randint(0, 3000) for _ in range(4000))
    for at in range(0, 4000, 7):
        seconds[at] = max(0, seconds[at] - chance.randint(0, 9))
    write(tmp_path, seconds)
    stream = stream_of("pace = 100")
    source = opened(stream, tmp_path)
    source.resume({0: None})
    now_us, at, numbers, arrivals = START_US, 0, list[int](), list[int]()
    while at < 4000:
        now_us += chance.randint(0, 3_000_000)
        end = source.arrived_by(now_us)
        cut = chance.randint(at, end)
        known = source.arrivals_us(at, cut)
        piece = Range.from_json(json.loads(json.dumps(source.piece("s", at, cut, None, False).to_json())))
        rows = opened(stream, tmp_path).read(piece)
        assert rows.arrivals_us is not None
        assert place_of_range(piece) == f"records {at} to {cut}"
        assert place_text(piece)
        assert np.array_equal(rows.arrivals_us, known)
        numbers += rows.table.column("c0").to_pylist()
        arrivals += known.tolist()
        at = cut
        source.forget_before(at)
        if chance.random() < 0.2:
            end_position = piece.end if chance.random() < 0.5 else source.position(at)
            source = opened(stream, tmp_path)
            source.resume({at: end_position if at else None})
    assert numbers == list(range(4000))
    assert arrivals == sorted(arrivals)
    assert source.arrived_by(now_us) == source.total() == 4000


def test_bad_rows_count_once(tmp_path: Path) -> None:
    write(tmp_path, [0, 1, 2, 3])
    with open(tmp_path / "s.jsonl", "a", encoding="utf-8") as file:
        file.write("nonsense\n")
    stream = stream_of("pace = 1000", "ON ERROR SKIP")
    source = opened(stream, tmp_path)
    source.resume({0: None})
    assert source.arrived_by(START_US + 10_000_000) == 4
    pieces = [source.piece("s", first, first + 1, None, False) for first in range(4)]
    assert [opened(stream, tmp_path).read(piece).skipped for piece in pieces] == [1, 0, 0, 0]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CqlErrors, match="both pace and follow"):
        stream_of("pace = 1, follow = true")
    with pytest.raises(CqlErrors, match="needs pace"):
        stream_of("pace_from = '2026-01-01T00:00:05Z'")
    with pytest.raises(CqlErrors, match="needs a number above 0"):
        stream_of("pace = 0")
    with pytest.raises(InputError, match="no such file"):
        opened(stream_of("pace = 1"), tmp_path).initial()
