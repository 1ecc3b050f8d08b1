"""Shared joins whose slices run apart: whatever the interleaving, the lines of each query are those of the query
alone, over the tuples that are present for it.

    slice 1   |=============>      T1: everything that has arrived
    slice 2   |========>           never ahead of slice 1; there was no room for x at 3 when it got there:
    slice 3   |==x===>             x is in no pair and in no window of the queries of slice 3 and after
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from oracle.drive import judged_slices
from seeds import seeds

from kigen.lifetimes import StreamInput, TaskRuntime, runtime
from kigen.lifetimes.blocks import FOREVER
from kigen.lifetimes.joins.sliced_join import Spans
from kigen.lifetimes.joins.sliced_runtime import Move, SlicedRuntime
from kigen.plan import bind
from kigen.plan.logical import App
from kigen.plan.shared_joins.slices import join_slices, why_whole
from kigen.plan.tasks import Task, extract_tasks

US = "MICROSECONDS"
SHAPES = (
    "SELECT a.v AS x, b.v AS y FROM {0}",
    "SELECT a.k, COUNT(*) AS n, SUM(b.v) AS total FROM {0} GROUP BY a.k",
    "SELECT COUNT(*) AS n, MAX(a.v) AS most FROM {0}",
    "ISTREAM(SELECT a.v, b.v AS w FROM {0} AND a.v > 3)",
    "DSTREAM(SELECT b.v FROM {0} AND a.v < b.v)",
    "RSTREAM(SELECT DISTINCT a.k FROM {0})",
    "SELECT DISTINCT a.v FROM {0}",
)
Line = tuple[object, ...]


@dataclass
class Case:
    """Windows, queries and two streams (or one, joined with itself), drawn from a seed. Times have any distance and are
    often equal."""

    seed: int

    def __post_init__(self) -> None:
        rng = Random(self.seed)
        self.streams = ("a", "b") if rng.random() < 0.8 else ("a",)
        sizes = sorted(rng.sample(range(1, 40), rng.randint(2, 6)))
        rights = sizes if rng.random() < 0.6 else sorted(rng.choices(range(1, 40), k=len(sizes)))
        count, gap = rng.randint(5, 40), rng.choice((0, 1, 3))
        self.rows = {s: sorted(rng.randrange(count * gap + 4) for _ in range(count)) for s in self.streams}
        self.values = {
            s: [(rng.randrange(rng.choice((1, 4, 9))), rng.randrange(9)) for _ in range(count)] for s in self.streams
        }
        self.shapes = [rng.choice(SHAPES) for _ in sizes]
        declared = "".join(
            f"CREATE STREAM {s} (k BIGINT, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'x');"
            for s in self.streams
        )
        second = self.streams[-1]
        froms = [
            f"a [RANGE {left} {US}] AS a, {second} [RANGE {right} {US}] AS b WHERE a.k = b.k"
            for left, right in zip(sizes, rights, strict=True)
        ]
        queries = [
            f"CREATE QUERY q{i} AS {s.format(f)};" for i, (s, f) in enumerate(zip(self.shapes, froms, strict=True))
        ]
        self.app = bind(declared + "".join(queries))
        self.mode = rng.choice(("dt", "nt"))

    def task(self) -> Task | None:
        tasks = extract_tasks(self.app)
        return tasks[0] if len(tasks) == 1 and why_whole(tasks[0]) is None else None

    def given(self, stream: str, start: int, stop: int, ended: bool, without: Collection[int] = ()) -> StreamInput:
        places = [i for i in range(start, min(stop, len(self.rows[stream]))) if i not in without]
        ts = pa.array([self.rows[stream][i] for i in places], pa.int64())
        k, v = (pa.array([self.values[stream][i][c] for i in places], pa.int64()) for c in (0, 1))
        return StreamInput([pa.table({"c0": k, "c1": v, "c2": ts.cast(pa.timestamp("us")), "_ts": ts})], None, ended)


def lines(outputs: dict[str, list[Line]], found: dict[str, pa.Table]) -> None:
    for name, table in found.items():
        outputs.setdefault(name, []).extend(zip(*(column.to_pylist() for column in table.columns), strict=True))


def alone(case: Case, name: str, absent: dict[str, set[int]]) -> list[Line]:
    """Runs the query by itself, at once, over the streams without the absent tuples. The absent tuples do not change
    where time ends."""
    app: App = replace(case.app, sharing=False, queries=tuple(q for q in case.app.queries if q.name == name))
    (task,) = extract_tasks(app)
    kernel, outputs = TaskRuntime(task, app, case.mode), dict[str, list[Line]]()
    inputs = {s: case.given(s, 0, 10**6, True, absent.get(s, set())) for s in task.streams}
    lines(outputs, kernel.step(inputs).outputs)
    return sorted(outputs.get(name, []), key=repr)


def absences(case: Case, rng: Random, slices: int) -> dict[str, list[tuple[int, int, int]]]:
    """Draws for each stream spans of time (never of its last instant) and the first slice that skips the tuples born
    then."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for stream, times in case.rows.items():
        at = times[0]
        while at < times[-1] and rng.random() < 0.7:
            first = at + rng.randrange(4)
            last = min(first + rng.randrange(3), times[-1] - 1)
            if last >= first:
                found.setdefault(stream, []).append((first, last, rng.randint(1, slices)))
            at = last + 1
    return found


def sliced(case: Case, task: Task, rng: Random, absent: dict[str, list[tuple[int, int, int]]]) -> dict[str, list[Line]]:
    kernel, outputs = SlicedRuntime(task, case.app, case.mode), dict[str, list[Line]]()
    slices = len(join_slices(task)[0].queries)
    places, told = dict.fromkeys(task.streams, 0), [dict.fromkeys(task.streams, 0) for _ in range(slices)]
    top = max(times[-1] for times in case.rows.values()) + 2
    for step in range(10_000):
        inputs = {}
        for stream in rng.sample(task.streams, rng.randint(0, len(task.streams))):
            start, places[stream] = places[stream], places[stream] + rng.choice((0, 1, 3, 10))
            inputs[stream] = case.given(stream, start, places[stream], places[stream] >= len(case.rows[stream]))
        moves: list[Move | None] = []
        for place in range(1, slices):
            until = FOREVER if rng.random() < 0.05 or step > 200 else rng.randrange(top)
            gone = {}
            for stream, spans in absent.items():
                mine = [span[:2] for span in spans if span[2] <= place][told[place][stream] :]
                if mine and (rng.random() < 0.3 or mine[0][0] < until):  # one at a time: time waits for the next
                    gone[stream] = mine[0]
                    told[place][stream] += 1
                    until = until if len(mine) == 1 else min(until, mine[1][0])
            moves.append(None if not gone and rng.random() < 0.2 else Move(until, 0, gone))
        result = kernel.step(inputs, None, moves)
        lines(outputs, result.outputs)
        if result.finished:
            return {name: sorted(found, key=repr) for name, found in outputs.items()}
        if rng.random() < 0.1:
            saved, kernel = kernel.snapshot(), SlicedRuntime(task, case.app, case.mode)
            kernel.restore(saved)
    raise AssertionError(f"seed {case.seed}: the task does not end")


def judge(seed: int, evicting: bool) -> bool:
    """Judges a case. Returns whether it could be sliced."""
    case = Case(seed)
    task = case.task()
    if task is None:
        return False
    rng, (joined,) = Random(f"{seed} run"), join_slices(task)
    absent = absences(case, rng, len(joined.queries)) if evicting else {}
    found = sliced(case, task, rng, absent)
    for place, names in enumerate(joined.queries):
        gone = {
            stream: {
                i
                for i, at in enumerate(case.rows[stream])
                for first, last, since in spans
                if first <= at <= last and since <= place
            }
            for stream, spans in absent.items()
        }
        for name in names:
            assert found.get(name, []) == alone(case, name, gone), (seed, name, case.mode, absent)
    return True


@pytest.mark.parametrize("block", seeds(4, 8))
def test_random_interleavings_give_the_lines_of_each_query_alone(block: int) -> None:
    assert sum(judge(seed, False) for seed in range(block * 10, block * 10 + 10)) >= 3


@pytest.mark.parametrize("block", seeds(4, 8))
def test_what_a_slice_passes_over_is_not_there_for_its_queries(block: int) -> None:
    assert sum(judge(seed, True) for seed in range(500 + block * 10, 510 + block * 10)) >= 3


@pytest.mark.parametrize("seed", range(900, 905))
def test_pieces_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "STEP_TUPLES", 3)
    for number in range(seed * 5, seed * 5 + 5):
        judge(number, bool(number % 2))


@pytest.mark.parametrize("seed", [7, 9, 21, 125, 147, 187])
def test_random_families(seed: int) -> None:
    assert judged_slices(seed) == ""


def test_spans_name_births_from_first_to_last() -> None:
    spans = Spans().added((3, 5)).added((8, 8))
    births = np.array([2, 3, 5, 6, 8, 9])
    assert spans.holds(births).tolist() == [False, True, True, False, True, False]
    assert spans.since(6) == Spans((8,), (8,))
    assert not Spans().holds(births).any()


def test_a_tuple_that_is_not_there_is_in_no_window_beside_the_join() -> None:
    """A global COUNT has a row while a window holds a tuple; the tuple at 0 is absent for q1.

    a: 0        b: 20
    q0 [0,5) and [20,25)      q1 only [20,29)
    """
    streams = "".join(
        f"CREATE STREAM {s} (k BIGINT, v BIGINT) FROM synthetic (rate = 1, k = 'sequence', v = 'sequence');"
        for s in "ab"
    )
    counts = [
        f"CREATE QUERY q{i} AS SELECT COUNT(*) AS n FROM a [RANGE {w} {US}], b [RANGE {w} {US}] WHERE a.k = b.k;"
        for i, w in enumerate((5, 9))
    ]
    app = bind(streams + "".join(counts))
    (task,) = extract_tasks(app)
    kernel, outputs = SlicedRuntime(task, app), dict[str, list[Line]]()
    one = pa.table({"c0": pa.array([1]), "c1": pa.array([1]), "_ts": pa.array([0])})
    two = one.set_column(2, "_ts", pa.array([20]))
    lines(outputs, kernel.step({"a": StreamInput([one], 10), "b": StreamInput([], 10)}, None, [None]).outputs)
    end = StreamInput([], None, True)
    lines(
        outputs,
        kernel.step({"a": end, "b": StreamInput([two], None, True)}, None, [Move(FOREVER, 0, {"a": (0, 0)})]).outputs,
    )
    assert outputs == {"q0": [(0, 0, 5), (0, 20, None)], "q1": [(0, 20, None)]}
