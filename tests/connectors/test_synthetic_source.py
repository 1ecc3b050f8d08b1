"""Tests synthetic streams: the same rows in any cut, the declared rates and distributions, live and draining."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.connectors import InputError, LiveSource, OptionError, Range, open_source

COLUMNS = "id BIGINT, x DOUBLE, k STRING, z BIGINT, ok BOOLEAN, ts TIMESTAMP"
ARRIVALS = st.sampled_from(["constant", "poisson", "bursty"])


def open_drained(make_stream: Any, columns: str = COLUMNS, **options: Any) -> Any:
    options = {"rate": 1000, "duration": "60 s", "seed": 7, **options}
    return open_source(make_stream("synthetic", columns, None, **options), ".", True, None)


def times(source: Any) -> np.ndarray[Any, Any]:
    piece = source.advance(source.initial(), 10**9)
    return np.asarray(source.read(piece).table["_ts"].to_numpy())


@settings(max_examples=40, deadline=None)
@given(ARRIVALS, st.integers(0, 40_000), st.integers(0, 20_000), st.integers(1, 5))
def test_any_range_is_the_same_however_it_was_cut(
    make_stream: Any, arrivals: str, first: int, count: int, pieces: int
) -> None:
    end = min(first + count, 60_000)
    first = min(first, end)

    def read(a: int, b: int) -> pa.Table:
        # A new source each time: nothing may depend on what was read before.
        return (
            open_drained(make_stream, arrivals=arrivals, z="zipf(1.2, 100)")
            .read(Range("s", {"index": a}, {"index": b}))
            .table
        )

    cuts = np.linspace(first, end, pieces + 1).astype(int).tolist()
    parts = pa.concat_tables([read(a, b) for a, b in itertools.pairwise(cuts)])
    assert parts.combine_chunks().equals(read(first, end).combine_chunks())


@pytest.mark.parametrize("arrivals", ["constant", "poisson", "bursty"])
@pytest.mark.parametrize("rate", [0.5, 7, 333.3, 250_000, 3_000_000])
def test_order_and_mean_rate(make_stream: Any, arrivals: str, rate: float) -> None:
    seconds = max(20, min(2000, int(20_000 / rate))) if rate < 100_000 else 1
    found = times(
        open_drained(
            make_stream, arrivals=arrivals, rate=rate, duration=f"{seconds} s", every="500 ms", lasting="100 ms"
        )
    )
    assert (np.diff(found) >= 0).all()
    assert found[0] >= 0
    assert found[-1] < seconds * 1_000_000
    expected = rate * seconds
    assert abs(len(found) - expected) <= (1 if arrivals == "constant" else 5 * expected**0.5)


def test_constant_arrivals_are_evenly_spaced(make_stream: Any) -> None:
    assert times(open_drained(make_stream, rate=4, duration="1 s")).tolist() == [0, 250_000, 500_000, 750_000]
    assert times(open_drained(make_stream, rate=3, duration="1 s")).tolist() == [0, 333_333, 666_666]
    assert times(open_drained(make_stream, rate=0.1, duration="11 s", start="2026-01-01T00:00:00Z")).tolist() == [
        1767225600000000,
        1767225610000000,
    ]


def test_poisson_gaps_are_exponential_even_across_chunks(make_stream: Any) -> None:
    gaps = np.diff(times(open_drained(make_stream, arrivals="poisson", rate=100, duration="1000 s"))) / 1e4  # mean 1
    assert gaps.mean() == pytest.approx(1, abs=0.02)
    assert gaps.std() == pytest.approx(1, abs=0.03)
    assert (gaps > 1).mean() == pytest.approx(np.exp(-1), abs=0.01)
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] == pytest.approx(0, abs=0.02)


def test_bursts(make_stream: Any) -> None:
    found = times(
        open_drained(make_stream, arrivals="bursty", rate=1000, duration="100 s", burst=4, every="10 s", lasting="2 s")
    )
    in_burst = (found % 10_000_000) < 2_000_000
    # 2 s at 4c and 8 s at c with a mean of 1: c = 10 / 16.
    assert in_burst.sum() / 20 == pytest.approx(2500, rel=0.05)
    assert (~in_burst).sum() / 80 == pytest.approx(625, rel=0.05)


@pytest.mark.parametrize("arrivals", ["constant", "poisson", "bursty"])
@pytest.mark.parametrize("rate", [0.7, 1000, 2_500_000])
def test_counting_agrees_with_the_times(make_stream: Any, arrivals: str, rate: float) -> None:
    source = open_drained(
        make_stream, arrivals=arrivals, rate=rate, duration="1 s", rows=30_000, every="300 us", lasting="70 us"
    )
    arrivals_of = source._arrivals
    offsets = arrivals_of.offsets_us(0, 20_000)
    for at in [0, 1, 2, *offsets[[0, 1, 8190, 8191, 8192, 8193, 15_000]].tolist(), int(offsets[9000]) + 1]:
        if at < offsets[-1]:
            assert arrivals_of.count_before(at) == np.searchsorted(offsets, at)


def column(make_stream: Any, type_: str, **options: Any) -> Any:
    source = open_drained(make_stream, f"v {type_}", **options)
    return source.read(source.advance(source.initial(), 10**9)).table["c0"]


def test_distributions(make_stream: Any) -> None:
    normal = column(make_stream, "DOUBLE", v="normal(20, 5)").to_numpy()
    assert (normal.mean(), normal.std()) == (pytest.approx(20, abs=0.1), pytest.approx(5, abs=0.1))
    uniform = column(make_stream, "DOUBLE", v="uniform(-1, 3)").to_numpy()
    assert uniform.min() >= -1
    assert uniform.max() < 3
    assert (uniform.mean(), uniform.std()) == (pytest.approx(1, abs=0.02), pytest.approx(4 / 12**0.5, abs=0.02))
    zipf = column(make_stream, "BIGINT", v="zipf(1.2, 1000)").to_numpy()
    weights = np.arange(1, 1001) ** -1.2
    assert (zipf.min(), zipf.max() <= 1000) == (1, True)
    assert (zipf == 1).mean() == pytest.approx(1 / weights.sum(), abs=0.01)
    assert (zipf == 2).mean() == pytest.approx(weights[1] / weights.sum(), abs=0.01)
    whole = column(make_stream, "BIGINT", v="normal(0, 2)")
    assert whole.type == pa.int64()
    assert column(make_stream, "BIGINT", v="sequence").to_pylist() == list(range(60_000))
    assert set(column(make_stream, "STRING", v="choice(a, 'b c', d)").to_pylist()) == {"a", "b c", "d"}
    assert set(column(make_stream, "DOUBLE", v="choice(1, 2.5)").to_pylist()) == {1.0, 2.5}
    assert column(make_stream, "STRING", v="zipf(1, 5)").to_pylist()[0] in "12345"


def test_streams_columns_and_seeds_differ(make_stream: Any) -> None:
    source = open_drained(make_stream, "a DOUBLE, b DOUBLE")
    table = source.read(source.advance(source.initial(), 1000)).table
    assert table["c0"] != table["c1"]
    assert (
        table["c0"]
        != open_drained(make_stream, "a DOUBLE", seed=8).read(source.advance(source.initial(), 1000)).table["c0"]
    )


def test_a_timestamp_column_is_the_scheduled_time_or_off_it_by_seconds(make_stream: Any) -> None:
    plain = make_stream("synthetic", "ts TIMESTAMP", "ts", rate=10, duration="100 s")
    source = open_source(plain, ".", True, None)
    table = source.read(source.advance(source.initial(), 1000)).table
    assert table["c0"].cast(pa.int64()).to_pylist() == table["_ts"].to_pylist() == [i * 100_000 for i in range(1000)]
    late = open_source(
        make_stream("synthetic", "ts TIMESTAMP", "ts", rate=10, duration="100 s", ts="uniform(-2, 0)"), ".", True, None
    )
    off = late.read(late.advance(late.initial(), 1000)).table["_ts"].to_numpy() - np.arange(1000) * 100_000
    assert off.min() < -1_900_000
    assert off.max() <= 0


def test_live_tuples_appear_at_their_time(make_stream: Any) -> None:
    start = 1_767_225_600_000_000
    stream = make_stream("synthetic", COLUMNS, None, rate=10, duration="1 s")
    source = open_source(stream, ".", False, start)
    assert source.live
    assert isinstance(source, LiveSource)
    assert [source.arrived_by(start + at) for at in (-5, 0, 200_000, 899_999, 5_000_000)] == [0, 1, 3, 9, 10]
    assert source.arrivals_us(5, 10).tolist() == [start + i * 100_000 for i in range(5, 10)]
    assert (source.total(), source.complete_us(start + 7)) == (10, start + 7)
    rows = source.read(source.piece("s", 5, 10, None, True))
    assert rows.arrivals_us is not None
    assert rows.table["_ts"].to_pylist() == rows.arrivals_us.tolist() == [start + i * 100_000 for i in range(5, 10)]
    assert source.fraction({"index": 10}) == 1.0
    endless = open_source(make_stream("synthetic", COLUMNS, None, rate=10), ".", False, start)
    assert endless.fraction(endless.initial()) is None
    assert isinstance(endless, LiveSource)
    assert (endless.total(), endless.arrived_by(start + 3_600_000_000)) == (None, 36_001)


@pytest.mark.parametrize("arrivals", ["constant", "poisson", "bursty"])
def test_delayed_tuples_appear_later_with_the_times_they_had(make_stream: Any, arrivals: str) -> None:
    start = 1_767_225_600_000_000
    how = {"rate": 10, "arrivals": arrivals, "duration": "60 s", "seed": 3}
    at_once, delayed = (
        open_source(make_stream("synthetic", COLUMNS, None, **how, **more), ".", False, start)
        for more in ({}, {"delay": "5 s"})
    )
    assert isinstance(at_once, LiveSource)
    assert isinstance(delayed, LiveSource)
    for at in (-1, 0, 4_999_999, 5_000_000, 30_000_000, 100_000_000):
        assert delayed.arrived_by(start + at) == at_once.arrived_by(start + at - 5_000_000)
    assert delayed.total() == at_once.total()
    assert delayed.arrivals_us(0, 100).tolist() == at_once.arrivals_us(0, 100).tolist()
    assert delayed.complete_us(start + 7_000_000) == start + 2_000_000


def test_rows_bound_a_stream(make_stream: Any) -> None:
    piece = (source := open_source(make_stream("synthetic", COLUMNS, None, rate=10, rows=5), ".", True, None)).advance(
        source.initial(), 9
    )
    assert (piece.rows, piece.ended, piece.progress_us) == (5, True, None)


def test_an_endless_stream_cannot_be_drained(make_stream: Any) -> None:
    with pytest.raises(InputError, match=r"duration = '60 s'"):
        open_source(make_stream("synthetic", COLUMNS, None, rate=10), ".", True, None).initial()


@pytest.mark.parametrize(
    ("options", "option", "says"),
    [
        ({}, "rate", "needs a rate"),
        ({"rate": 0}, "rate", "above 0"),
        ({"rate": "fast"}, "rate", "above 0"),
        ({"rate": 1, "arrivals": "poison"}, "arrivals", "'constant', 'poisson' or 'bursty'"),
        ({"rate": 1, "seed": 1.5}, "seed", "whole number"),
        ({"rate": 1, "duration": "soon"}, "duration", "such as '60 s'"),
        ({"rate": 1, "duration": "1 parsec"}, "duration", "such as '60 s'"),
        ({"rate": 1, "start": "2026-01-01"}, "start", "2026-01-02T03:04:05Z"),
        ({"rate": 1, "arrivals": "bursty", "every": "1 s", "lasting": "1 s"}, "lasting", "shorter"),
        ({"rate": 1, "sed": 1}, "sed", "did you mean 'seed'"),
        ({"rate": 1, "x": "normal(1)"}, "x", "not a generator of DOUBLE values"),
        ({"rate": 1, "x": "uniform(2, 1)"}, "x", "not a generator"),
        ({"rate": 1, "x": "gauss(2, 1)"}, "x", "normal(20, 5)"),
        ({"rate": 1, "x": 5}, "x", "not a generator"),
        ({"rate": 1, "x": "choice(a, 1)"}, "x", "'a' is not a DOUBLE"),
        ({"rate": 1, "ok": "normal(0, 1)"}, "ok", "not a generator of BOOLEAN"),
        ({"rate": 1, "z": "zipf(1, 0.5)"}, "z", "not a generator"),
    ],
)
def test_wrong_options(make_stream: Any, options: dict[str, Any], option: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_source(make_stream("synthetic", COLUMNS, None, **options), ".", True, None)
    assert caught.value.option == option
    assert says in str(caught.value)
