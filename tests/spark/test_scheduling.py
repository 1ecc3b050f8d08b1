"""Live streams under a policy without Spark, on a virtual clock: cursors, ticks, shedding, restarts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.worker_side import decided

from kigen.connectors import LiveSource, Position, Range, Rows, open_source
from kigen.connectors.source_base import Times
from kigen.plan import bind
from kigen.plan.logical import App
from kigen.plan.tasks import extract_tasks
from kigen.schedule import POLICY_NAMES, PolicySettings, ScheduledTask, make_policy
from kigen.spark.admission.offsets import batch_of, initial_offset, next_offset
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.admission.shedding import SLOT_US, Shedding
from kigen.spark.scratch import Committed

SECOND = 1_000_000


class Listed(LiveSource):
    """Tuple i arrives at times[i], with value i."""

    live = True

    def __init__(self, times: list[int]) -> None:
        self.times = np.array(times, np.int64)

    def initial(self) -> Position:
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        raise AssertionError("live streams are admitted by a policy")

    def arrived_by(self, now_us: int) -> int:
        return int(np.searchsorted(self.times, now_us, side="right"))

    def arrivals_us(self, first: int, end: int) -> Times:
        return self.times[first:end]

    def complete_us(self, now_us: int) -> int:
        return now_us

    def total(self) -> int | None:
        return len(self.times)

    def read(self, piece: Range) -> Rows:
        first, end = piece.start["index"], piece.end["index"]
        return Rows(
            pa.table({"c0": pa.array(range(first, end), pa.int64()), "_ts": self.times[first:end]}),
            arrivals_us=self.times[first:end],
        )

    def fraction(self, position: Position) -> float | None:
        return None


def app_of(queries: str, shed: str = "") -> App:
    streams = "".join(
        f"CREATE STREAM {s} (v BIGINT) FROM synthetic (rate = 1, v = 'sequence') {shed};\n" for s in ("a", "b")
    )
    return bind(streams + queries)


class Play:
    """A run on a virtual clock: one batch after the other, each as long as the test says."""

    def __init__(
        self, queries: str, times: dict[str, list[int]], policy: str = "all", shed: str = "", **settings: Any
    ) -> None:
        self.app = app_of(queries, shed)
        self.tasks = extract_tasks(self.app)
        used = {s for task in self.tasks for s in task.streams}
        self.sources: dict[str, LiveSource] = {name: Listed(at) for name, at in times.items() if name in used}
        self.policy = (policy, PolicySettings(**settings))
        self.offset = initial_offset(dict(self.sources), self.tasks, 0)
        self.committed = Committed()
        self.restart()

    def restart(self) -> None:
        self.scheduling = Scheduling(self.app, self.tasks, self.sources, self.offset.queues, self.policy, 10**6)

    def batch(self, now_us: int, closing: bool = False) -> dict[str, dict[str, Any]]:
        after = decided(self.scheduling, self.offset, now_us, self.committed, closing)
        batch = batch_of(self.offset, after, self.tasks)
        self.offset = after
        return batch


def shape(batch: dict[str, dict[str, Any]]) -> dict[str, list[tuple[str, int, int, int | None]]]:
    """Returns (stream, from, to, progress) per task."""
    return {
        task: [(r["stream"], r["start"]["index"], r["end"]["index"], r["progress_us"]) for r in mine["ranges"]]
        for task, mine in batch.items()
    }


JOIN = "CREATE QUERY j AS SELECT a.v FROM a [RANGE 1 SECONDS], b [RANGE 1 SECONDS] WHERE a.v = b.v;"


def test_what_has_arrived_goes_and_idle_streams_of_the_task_give_their_progress() -> None:
    play = Play(JOIN, {"a": [10, 20], "b": [100]})
    assert shape(play.batch(15)) == {"task0": [("a", 0, 1, 15), ("b", 0, 0, 15)]}
    assert play.batch(16) == {}, "nothing arrived, nothing due"
    assert shape(play.batch(25)) == {"task0": [("a", 1, 2, 25), ("b", 0, 0, 25)]}


def test_a_known_death_makes_a_batch_once_its_time_has_passed() -> None:
    play = Play("CREATE QUERY q AS SELECT v FROM a [RANGE 1 SECONDS];", {"a": [10, 1000]})
    play.batch(15)
    play.committed = Committed(1, 20, {"task0": 30})
    assert play.batch(29) == {}
    assert shape(play.batch(31)) == {"task0": [("a", 1, 1, 31)]}
    assert play.batch(40) == {}


def test_tasks_have_cursors_of_their_own() -> None:
    queries = """CREATE QUERY soon DEADLINE 1 SECONDS AS SELECT v FROM a [ROWS 5];
                 CREATE QUERY some DEADLINE 30 SECONDS AS SELECT v FROM a [ROWS 7];"""
    play = Play(queries, {"a": list(range(0, 1000, 10))}, "taat")
    taken: dict[str, list[tuple[int, int]]] = {"task0": [], "task1": []}
    for at in range(1000, 1400):
        for task, ranges in shape(play.batch(at)).items():
            taken[task] += [(first, end) for _, first, end, _ in ranges if end > first]
    assert taken == {task: [(i, i + 1) for i in range(100)] for task in ("task0", "task1")}, "each tuple once, in order"


def test_the_oldest_of_several_streams_go_first_and_time_halts_at_what_waits() -> None:
    times = {"a": [10_000, 30_000, 50_000], "b": [20_000, 30_000, 40_000]}
    play = Play(JOIN.replace("AS SELECT", "DEADLINE 1 SECONDS AS SELECT", 1), times, "bts", phi_us=1.0)
    seen = [shape(play.batch(at))["task0"] for at in (60_000, 60_001, 60_002)]
    assert seen == [
        [("a", 0, 1, 30_000), ("b", 0, 0, 20_000)],
        [("a", 1, 1, 30_000), ("b", 0, 1, 30_000)],
        [("a", 1, 2, 50_000), ("b", 1, 2, 40_000)],
    ], "both tuples of 30 ms are one basic batch"


def test_firm_tuples_that_cannot_make_it_are_passed_over_and_counted() -> None:
    query = "CREATE QUERY q DEADLINE 1 SECONDS FIRM AS SELECT v FROM a [RANGE 1 SECONDS];"
    play = Play(query, {"a": [0, 10, 5 * SECOND, 5 * SECOND + 10]}, "pack")
    got = play.batch(5 * SECOND + 20)
    assert got["task0"]["shed"] == {"a": [0, 2]}
    assert shape(got) == {"task0": [("a", 2, 4, 5 * SECOND + 20)]}


def test_soft_tuples_are_never_dropped() -> None:
    play = Play(
        "CREATE QUERY q DEADLINE 1 SECONDS AS SELECT v FROM a [RANGE 1 SECONDS];", {"a": [0, 10, 5 * SECOND]}, "pack"
    )
    seen = 0
    for at in range(9 * SECOND, 12 * SECOND, SECOND):
        got = play.batch(at)
        assert all(mine["shed"] == {} for mine in got.values())
        seen += sum(end - first for ranges in shape(got).values() for _, first, end, _ in ranges)
    assert seen == 3


def test_what_is_shed_without_a_batch_is_in_the_next_offset() -> None:
    query = "CREATE QUERY q DEADLINE 1 SECONDS FIRM AS SELECT v FROM a [RANGE 1 SECONDS];"
    play = Play(query, {"a": [0, 10, 9 * SECOND]}, "pack")
    assert play.batch(5 * SECOND) == {}
    got = play.batch(9 * SECOND + 1)
    assert (got["task0"]["shed"], got["task0"]["ranges"][0]["start"]) == ({"a": [0, 2]}, {"index": 2})
    assert got["task0"]["ranges"][0]["ended"], "and the stream's end comes with its last tuple"


def test_a_restart_finds_the_queues_again() -> None:
    queries = """CREATE QUERY soon DEADLINE 1 SECONDS AS SELECT v FROM a [ROWS 5];
                 CREATE QUERY some DEADLINE 30 SECONDS AS SELECT v FROM a [ROWS 7];"""
    play = Play(queries, {"a": list(range(0, 1000, 10))}, "taat")
    taken: dict[str, list[int]] = {"task0": [], "task1": []}
    for at in range(1000, 1400):
        if at % 7 == 0:
            play.restart()
        for task, ranges in shape(play.batch(at)).items():
            taken[task] += [first for _, first, end, _ in ranges if end > first]
    assert taken == {task: list(range(100)) for task in ("task0", "task1")}


class FoundAgain(Listed):
    """After a restart, finds a few more of the tuples at each look, as a thread that reads a long queue does."""

    found = 0

    def arrived_by(self, now_us: int) -> int:
        self.found = min(self.found + 7, super().arrived_by(now_us))
        return self.found

    def complete_us(self, now_us: int) -> int:
        return now_us if self.found == super().arrived_by(now_us) else int(self.times[self.found])

    def total(self) -> int | None:
        return len(self.times) if self.found == len(self.times) else None


@pytest.mark.parametrize("policy", ["all", "taat", "bts", "pack"])
def test_a_restart_finds_the_queues_again_in_pieces(policy: str) -> None:
    """Tasks stand at different places. What lies before one of them must neither be counted for it nor read again, and
    its time must not go back when another of its streams has something new."""
    queries = """CREATE QUERY soon DEADLINE 1 SECONDS AS SELECT a.v FROM a [ROWS 5], b [ROWS 5];
                 CREATE QUERY some DEADLINE 30 SECONDS AS SELECT v FROM a [ROWS 7];"""
    play = Play(queries, {"a": list(range(0, 1000, 10)), "b": list(range(1, 2000, 20))}, "all")
    assert play.batch(600)
    for task, places in {"task0": {"a": 61, "b": 30}, "task1": {"a": 20}}.items():
        for stream, index in places.items():
            play.offset.queues[task][stream].update(index=index, progress=index * 10 if stream == "a" else 581)
    play.policy = policy, PolicySettings()
    for stream, source in play.sources.items():
        play.sources[stream] = FoundAgain(source.times.tolist())  # type: ignore[attr-defined]
    play.restart()
    at = {"task0": {"a": 61, "b": 30}, "task1": {"a": 20}}
    reached = {task: dict.fromkeys(streams, 0) for task, streams in at.items()}
    for now in range(700, 2600):
        for task, ranges in shape(play.batch(now)).items():
            for stream, first, end, progress_us in ranges:
                assert first == at[task][stream], (task, stream, now)
                assert end >= first
                assert progress_us is not None
                assert progress_us >= reached[task][stream]
                at[task][stream], reached[task][stream] = end, progress_us
    assert at == {"task0": {"a": 100, "b": 100}, "task1": {"a": 100}}


def test_closing_ends_streams_after_what_has_arrived() -> None:
    play = Play("CREATE QUERY q AS SELECT v FROM a [ROWS 5];", {"a": [10, 20, 5000]})
    got = play.batch(30, closing=True)["task0"]["ranges"][0]
    assert (got["start"]["index"], got["end"]["index"], got["ended"]) == (0, 2, True)
    assert play.batch(6000, closing=True) == {}


def test_idle_tasks_end_when_the_time_is_over() -> None:
    play = Play("CREATE QUERY q AS SELECT v FROM a [ROWS 5];", {"a": [5000]})
    got = play.batch(30, closing=True)["task0"]["ranges"][0]
    assert (got["end"]["index"], got["ended"]) == (0, True)


@pytest.mark.parametrize("seed", range(5))
def test_shed_keeps_the_most_valuable_and_the_same_ones_for_everybody(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 3 * SECOND, 900)).tolist()
    app = app_of("CREATE QUERY q AS SELECT v FROM a [ROWS 5];", "SHED ABOVE 100 PER SECOND BY v * 7919 % 1000")
    worth = np.arange(900) * 7919 % 1000
    whole = Shedding(app.stream("a"), Listed(times)).keeps(0, 900)
    cuts = np.unique(np.concatenate(([0, 900], rng.integers(0, 900, 40))))
    pieces = [Shedding(app.stream("a"), Listed(times)).keeps(int(a), int(b)) for a, b in itertools.pairwise(cuts)]
    assert (np.concatenate(pieces) == whole).all()
    seconds, slots = np.array(times) // SECOND, np.array(times) // SLOT_US
    assert (np.bincount(seconds[whole], minlength=3) <= 100).all()
    assert whole.sum() > 290
    for slot in np.unique(slots):
        kept, gone = worth[whole & (slots == slot)], worth[~whole & (slots == slot)]
        assert not len(kept) or not len(gone) or kept.min() > gone.max()


@pytest.mark.parametrize("delay", ["30 ms", "1250 ms"])
def test_shed_keeps_the_same_tuples_of_a_delayed_stream_for_everybody(delay: str) -> None:
    text = f"""CREATE STREAM s (v BIGINT) SHED ABOVE 100 PER SECOND
      FROM synthetic (rate = 300, arrivals = 'poisson', seed = 3, duration = '2 s', delay = '{delay}', v = 'sequence');
    CREATE QUERY q AS SELECT v FROM s [ROWS 5];"""
    stream = bind(text).stream("s")
    source = open_source(stream, ".", False, 40_000)
    assert isinstance(source, LiveSource)
    end = source.arrived_by(10 * SECOND)
    whole = Shedding(stream, source).keeps(0, end)
    pieces = [Shedding(stream, source).keeps(at, min(end, at + 37)) for at in range(0, end, 37)]
    assert (np.concatenate(pieces) == whole).all()
    assert 190 <= whole.sum() <= 400


def test_shed_tuples_are_not_the_policys() -> None:
    times = list(range(0, SECOND, 1000))
    play = Play("CREATE QUERY q AS SELECT v FROM a [ROWS 5];", {"a": times}, shed="SHED ABOVE 100 PER SECOND BY v")
    assert play.batch(50_000) == {}, "its slot is not over"
    got = play.batch(2 * SECOND)
    assert shape(got) == {"task0": [("a", 0, 1000, 2 * SECOND)]}, "the workers filter, and count"
    assert play.scheduling.policy.pending(0) == 0


def test_random_runs_take_every_tuple_once_in_order() -> None:
    """Whatever the policy, the ranges of a task follow each other without gaps, except for what was shed."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        times = {s: np.sort(rng.integers(0, 4 * SECOND, rng.integers(0, 300))).tolist() for s in "ab"}
        firm = rng.choice(["", "FIRM"])
        queries = JOIN.replace("AS SELECT", f"DEADLINE 1 SECONDS {firm} AS SELECT", 1)
        queries += f"CREATE QUERY q DEADLINE 3 SECONDS {firm} AS SELECT v FROM b [ROWS 3];"
        policy = str(rng.choice(["all", "fifo", "edf", "taat", "bts", "bts1", "ats", "ats1", "pack"]))
        play = Play(queries, times, policy, fixed_us=50_000.0)
        at = {task: dict.fromkeys(streams, 0) for task, streams in play.offset.queues.items()}
        reached = {task: dict.fromkeys(streams, -1) for task, streams in play.offset.queues.items()}
        now = 0
        while now < 400 * SECOND and not all(s["ended"] for q in play.offset.queues.values() for s in q.values()):
            now += int(rng.integers(1, SECOND // 2))
            if rng.random() < 0.1:
                play.restart()
            for task, mine in play.batch(now).items():
                for stream, (first, end) in mine["shed"].items():
                    assert firm
                    assert first == at[task][stream]
                    at[task][stream] = end
                for piece in mine["ranges"]:
                    assert piece["start"]["index"] == at[task][piece["stream"]], (seed, policy)
                    at[task][piece["stream"]] = piece["end"]["index"]
                    known = [t for t in times[piece["stream"]][piece["end"]["index"] :] if t < piece["progress_us"]]
                    assert not known, (seed, "progress passed a tuple that waits")
                    assert piece["progress_us"] >= reached[task][piece["stream"]]
                    reached[task][piece["stream"]] = piece["progress_us"]
        assert at == {task: {s: len(times[s]) for s in streams} for task, streams in at.items()}, (seed, policy)


def test_a_buffer_bounds_what_waits_and_drops_the_oldest() -> None:
    app = bind(
        "CREATE STREAM s0 (v BIGINT) FROM synthetic (rate = 1, v = 'sequence') BUFFER 4;\n"
        "CREATE STREAM s1 (v BIGINT) FROM synthetic (rate = 1, v = 'sequence');\n"
        "CREATE QUERY q0 AS SELECT v FROM s0 [ROWS 5];\n"
        "CREATE QUERY q1 AS SELECT a.v FROM s0 [ROWS 5] AS a, s1 [ROWS 5] AS b;\n"
    )
    tasks = extract_tasks(app)
    sources = {"s0": Listed([i * 10 for i in range(20)]), "s1": Listed([5, 15])}
    offset = initial_offset(dict(sources), tasks, 0)
    scheduling = Scheduling(app, tasks, sources, offset.queues, ("all", PolicySettings()), 10**6)
    for policy_now_us, dropped, read in ((95, 6, 4), (125, 0, 3), (1000, 3, 4)):
        queues = {t: {s: dict(at) for s, at in streams.items()} for t, streams in offset.queues.items()}
        taken = scheduling.next(offset.seq + 1, policy_now_us, queues, Committed(), False)
        for task in tasks:
            mine = taken[task.name]
            assert mine.dropped.get("s0", 0) == dropped
            assert sum(piece.rows or 0 for piece in mine.ranges if piece.stream == "s0") == read
            assert "s1" not in mine.shed
        offset = next_offset(offset, {}, 0, policy_now_us, (queues, taken))


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_what_is_evicted_does_not_wait(name: str) -> None:
    policy = make_policy(name, [ScheduledTask("a", 1e6), ScheduledTask("b", 2e6)], PolicySettings())
    for at in range(10):
        policy.arrived(0, 3, at * 150_000.0)
        policy.arrived(1, 1, at * 150_000.0)
    policy.evict(0, 7)
    policy.evict(1, 10)
    assert (policy.pending(0), policy.pending(1)) == (23, 0)
    admitted = 0
    while not (decision := policy.next(0.0)).idle:
        assert {task for task, _ in decision.admit} == {0}
        admitted += sum(count for _, count in decision.admit)
    assert admitted == 23
