"""Rounds inside epochs without Spark: crashes of workers and of whole runs lose nothing and double nothing."""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import epoch_side
import numpy as np
import pytest
from epoch_side import Crash, CrashingRuntime, Run, undisturbed

from kigen.connectors import Range, Sink, open_sink
from kigen.plan import bind, load_app
from kigen.plan.logical import Connector
from kigen.spark.admission import epoch_server
from kigen.spark.admission.lane import Lane
from kigen.spark.admission.lane_moves import plan_moves
from kigen.spark.admission.live_queues import TaskInput
from kigen.spark.operator.lane import lane_runner
from kigen.spark.operator.lane.lane_loop import LaneLost
from kigen.spark.operator.lane.lane_runner import LaneRunner
from kigen.spark.rounds import round_log
from kigen.spark.rounds.round import LoggedRound, Round
from kigen.spark.scratch import Scratch
from kigen.spark.sink.metrics import Metrics
from kigen.spark.spec import RunSpec

APP = """
CREATE STREAM cars (id BIGINT, room STRING, speed DOUBLE) FROM synthetic (rate = 150, arrivals = 'poisson', seed = 7,
  duration = '1200 ms', id = 'sequence', room = 'choice(a, b, c)', speed = 'uniform(0, 100)');
CREATE STREAM bikes (id BIGINT, room STRING) FROM synthetic (rate = 40, seed = 9, duration = '1200 ms',
  id = 'sequence', room = 'choice(a, b, c)');
CREATE QUERY means DEADLINE 1 SECONDS AS SELECT room, AVG(speed) AS mean, COUNT(*) AS n
  FROM cars [RANGE 300 MILLISECONDS] GROUP BY room HAVING AVG(speed) > 30;
CREATE QUERY last AS ISTREAM(SELECT id, speed FROM cars [ROWS 10] WHERE speed > 80);
CREATE QUERY meet AS SELECT c.id AS car, b.id AS bike FROM cars [RANGE 200 MILLISECONDS] AS c, bikes [ROWS 5] AS b
  WHERE c.room = b.room AND c.speed > 80;
"""

LATE = """
CREATE STREAM cars (id BIGINT) FROM synthetic (rate = 100, duration = '200 ms', delay = '1 s', id = 'sequence');
CREATE QUERY last DEADLINE 1 SECONDS AS ISTREAM(SELECT id FROM cars [NOW]);
"""

QUIET = """
CREATE STREAM cars (id BIGINT) FROM synthetic (rate = 100, duration = '200 ms', id = 'sequence');
CREATE STREAM late (id BIGINT) FROM synthetic (rate = 100, duration = '200 ms', delay = '6 s', id = 'sequence');
CREATE QUERY early DEADLINE 1 SECONDS AS ISTREAM(SELECT id FROM cars [NOW]);
CREATE QUERY last DEADLINE 1 SECONDS AS ISTREAM(SELECT id FROM late [NOW]);
"""


def test_a_round_is_encoded_as_json_dumps_does() -> None:
    """Admission puts the JSON together from texts. Older versions wrote it with `json.dumps`, and read it so."""
    end = {"index": 7, "partitions": {"0": 4}}
    ranges = [Range('a "ü"', {"index": 3}, end, 4, progress_us=9), Range("b", {"index": 0}, {"index": 0}, ended=True)]
    ranges.append(Range("c", {"byte": 5, "file": "x"}, {"byte": 9}, None, 17, None, False, 123))
    for piece in ranges:
        assert piece.encoded() == json.dumps(piece.to_json())
    given = TaskInput(ranges, {"b": (1, 4)}, {"b": 3}, np.zeros(0, np.int64), {"b": (10, 12)}, 44)
    body: dict[str, Any] = {"ranges": [piece.to_json() for piece in ranges], "shed": {"b": [1, 4]}, "dropped": {"b": 3}}
    assert given.encoded() == json.dumps(body)
    later = {**body, "absent": {"b": [10, 12]}, "until_us": 44}
    assert given.encoded(later=True) == json.dumps(later)
    nothing = {"ranges": [], "shed": {}, "dropped": {}}
    entry = Round(3, 8, [ranges[2].to_json()], {"täsk": body, "x slice 2": later, "y": nothing}, True, {"y": 1})
    texts = {"täsk": given.encoded(), "x slice 2": given.encoded(later=True), "y": json.dumps(nothing)}
    assert entry.encoded() == json.dumps(entry.__dict__).encode()
    assert replace(entry, taken={}).encoded(texts) == entry.encoded()
    assert Round.decoded(entry.encoded()) == entry
    assert LoggedRound.of(entry).rows == 8


def spec_of(directory: Path, **changes: Any) -> RunSpec:
    app = directory / "app.cql"
    app.write_text(APP, encoding="utf-8")
    (directory / "ck").mkdir(exist_ok=True)
    values = {
        "app": load_app(str(app)),
        "run_id": directory.name,
        "checkpoint": str(directory / "ck"),
        "scratch": tempfile.mkdtemp(prefix="kigen-"),
        "draining": False,
        "epoch_us": 150_000,
        "lanes": 2,
        "runtime": "epoch_side:CrashingRuntime",
        **changes,
    }
    return RunSpec(**values)


def lines(folder: Path) -> dict[str, list[str]]:
    return {path.stem: sorted(path.read_text(encoding="utf-8").splitlines()) for path in folder.glob("*.csv")}


def check_lines(spec: RunSpec, directory: Path) -> None:
    first = round_log.first_offset(spec.checkpoint)
    assert first is not None
    undisturbed(spec, first["started_us"], directory / "expected")
    found, expected = lines(directory / "out"), lines(directory / "expected")
    assert found.keys() == expected.keys()
    for query, wanted in expected.items():
        assert found[query] == wanted, query


@pytest.fixture(autouse=True)
def _no_crash(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(LaneRunner, "_is_alone", True)  # all lanes run in this process
    monkeypatch.setattr(lane_runner, "_attempt", count().__next__)
    yield
    CrashingRuntime.steps_left = None


def test_epochs_of_two_lanes_give_the_lines_of_one_step(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    run, epochs = Run(spec, tmp_path / "out", (None, {})), 0
    while run.epoch():
        epochs += 1
    assert run.sink.finished
    counts = {name: query.arrived for name, query in run.sink.metrics.queries.items()}
    run.close()
    assert epochs > 1
    assert run.sink.metrics.batches > epochs, "an epoch has many rounds"
    assert counts["means"] == counts["last"] > 100
    check_lines(spec, tmp_path)


def test_an_epoch_of_length_0_has_one_round(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, epoch_us=0, lanes=1)
    run = Run(spec, tmp_path / "out", (None, {}))
    while run.epoch():
        (path,) = round_log.lanes(spec.checkpoint, run.batch)
        assert [entry.last for entry in round_log.read(path)[0]] in ([False, True], [True])
    run.close()
    check_lines(spec, tmp_path)


@pytest.mark.parametrize(
    ("holds_all_slots", "slots_wanted", "first"),
    [(False, False, [False, True]), (True, False, [True]), (False, True, [True])],
)
def test_an_idle_run_stays_in_its_epoch_unless_jobs_wait_for_the_slot(
    tmp_path: Path, holds_all_slots: bool, slots_wanted: bool, first: list[bool]
) -> None:
    """Tuples come after ten lengths of an epoch."""
    spec = spec_of(tmp_path, app=bind(LATE), epoch_us=100_000, lanes=1, holds_all_slots=holds_all_slots)
    Scratch(spec.scratch).set_slots_wanted(slots_wanted)
    run = Run(spec, tmp_path / "out", (None, {}))
    assert run.epoch()
    (path,) = round_log.lanes(spec.checkpoint, 1)
    ends = [entry.last for entry in round_log.read(path)[0]]
    assert [*dict.fromkeys(ends)] == first
    while run.epoch():
        pass
    run.close()
    assert run.sink.metrics.queries["last"].arrived == 20
    check_lines(spec, tmp_path)


def test_the_time_of_an_idle_epoch_counts(tmp_path: Path) -> None:
    """A run that continues, or whose app changes, counts from what the record has."""
    spec = spec_of(tmp_path, app=bind(LATE.replace("'1 s'", "'60 s'")), epoch_us=100_000, lanes=1)
    run = Run(spec, tmp_path / "out", (None, {}))
    threading.Timer(0.6, Scratch(spec.scratch).stop_epochs).start()
    assert run.epoch()
    run.close()
    assert Metrics.from_json(run.sink.record.metrics).wall_us > 500_000


def test_an_idle_run_shows_the_rows_of_rolling_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes for seconds after the first rows. They are old enough soon, and then the run idles."""

    def rolling(spec: RunSpec, query: str, folder: Path) -> Sink:
        schema = next(q for q in spec.app.queries if q.name == query).schema
        options = (("path", query), ("roll_every", "600 ms"))
        return open_sink(Connector("parquet", options), schema, True, str(folder), query)

    monkeypatch.setattr(epoch_side, "csv_sink", rolling)
    spec = spec_of(tmp_path, app=bind(QUIET), epoch_us=100_000, lanes=1)
    run = Run(spec, tmp_path / "out", (None, {}))
    thread = threading.Thread(target=lambda: [*iter(run.epoch, False)])
    thread.start()
    part, until = tmp_path / "out" / "early" / "part-00000.parquet", time.monotonic() + 3.5
    while not part.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert part.exists(), "the rows are hidden until others come"
    time.sleep(1)
    batch = run.batch
    time.sleep(0.5)
    assert run.batch == batch, "the run idles"
    thread.join(20)
    run.close()


def test_streams_of_a_new_run_begin_when_they_are_released(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    run, scratch, ended = Run(spec, tmp_path / "out", (None, {})), Scratch(spec.scratch), list[bool]()
    scratch.hold_streams()
    thread = threading.Thread(target=lambda: ended.append(run.epoch()))
    thread.start()
    until = time.monotonic() + 20
    while not scratch.lanes_ready and time.monotonic() < until:
        time.sleep(0.005)
    assert scratch.lanes_ready, "all lanes have loaded their kernels"
    time.sleep(0.2)
    assert not any(round_log.read(path)[0] for path in round_log.lanes(spec.checkpoint, 1)), "streams are held"
    released_us = time.time_ns() // 1000
    scratch.release_streams()
    thread.join(20)
    assert ended == [True]
    first = round_log.first_offset(spec.checkpoint)
    assert first is not None
    assert first["started_us"] >= released_us, "no tuple has waited"
    while run.epoch():
        pass
    run.close()
    check_lines(spec, tmp_path)


def test_a_run_that_continues_is_not_held(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    run = Run(spec, tmp_path / "out", (None, {}))
    assert run.epoch()
    committed = run.offset, run.states
    run.close()
    again = Run(spec_of(tmp_path), tmp_path / "out", committed)
    Scratch(again.spec.scratch).hold_streams()
    while again.epoch():
        pass
    again.close()
    check_lines(spec, tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_a_lane_that_died_is_tried_again(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    spec = spec_of(tmp_path, epoch_us=rng.choice((100_000, 400_000, 10_000_000)))
    run = Run(spec, tmp_path / "out", (None, {}))
    CrashingRuntime.steps_left = rng.randrange(60)
    while run.epoch():
        if CrashingRuntime.steps_left is None:
            CrashingRuntime.steps_left = rng.choice((None, rng.randrange(60)))
    run.close()
    check_lines(spec, tmp_path)


@pytest.mark.parametrize("lost", ["nothing", "the run", "the run and Spark's commit"])
def test_rounds_go_on_while_spark_is_between_two_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """
    Spark   | epoch 1 |...............| epoch 2
    lanes   | epoch 1 | rounds of 2 ->
    """
    monkeypatch.setattr(epoch_server, "plan_moves", lambda *_: [])
    spec = spec_of(tmp_path)
    run = Run(spec, tmp_path / "out", (None, {}))
    begun = run.offset, dict(run.states)
    assert run.epoch()
    until = time.monotonic() + 120
    while min(len(round_log.read(path)[0]) for path in round_log.lanes(spec.checkpoint, 2) or [Path("none")]) < 3:
        assert time.monotonic() < until, "no rounds before Spark asks for them"
        time.sleep(0.001)
    assert not any(entry.last for path in round_log.lanes(spec.checkpoint, 2) for entry in round_log.read(path)[0])
    if lost != "nothing":
        run.close()
        spec = spec_of(tmp_path, run_id="again")
        run = Run(spec, tmp_path / "out", (run.offset, run.states) if lost == "the run" else begun)
    while run.epoch():
        pass
    run.close()
    check_lines(spec, tmp_path)
    assert run.sink.metrics.queries["last"].arrived == spec.source("cars", 0).total()  # type: ignore[attr-defined]


def test_streams_that_end_before_spark_begins_the_epoch_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Spark   | epoch 1 |........................| epoch 2 must come, or the lanes wait for it forever
    lanes   | epoch 1 | rounds of 2, the last tuples
    """
    monkeypatch.setattr(epoch_server, "plan_moves", lambda *_: [])
    spec = spec_of(tmp_path)
    run = Run(spec, tmp_path / "out", (None, {}))
    assert run.epoch()
    server, until = run.reader._server, time.monotonic() + 120
    assert server is not None
    while not (server.over and server.is_ahead):
        assert time.monotonic() < until, "the streams have not ended while the lanes were ahead"
        time.sleep(0.005)
    while run.epoch():
        pass
    assert run.sink.finished
    run.close()
    check_lines(spec, tmp_path)


def test_an_epoch_that_cannot_begin_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of the second lane cannot be opened: no lane may take the rounds of the old epoch for new ones."""
    monkeypatch.setattr(epoch_server, "plan_moves", lambda *_: [])
    spec, begin = spec_of(tmp_path), Lane.begin_epoch

    def failing(lane: Lane, epoch: int) -> None:
        if epoch == 3 and lane.place == 1:
            raise OSError(28, "No space left on device")
        begin(lane, epoch)

    monkeypatch.setattr(Lane, "begin_epoch", failing)
    run = Run(spec, tmp_path / "out", (None, {}))
    committed: list[tuple[Any, Any]] = [(None, {})]

    def all_epochs() -> None:
        while run.epoch():
            committed.append((run.offset, run.states))

    with pytest.raises((LaneLost, OSError)):  # OSError: Spark was there before the lanes
        all_epochs()
    assert isinstance(run.sink.scratch.error(), OSError), "the command says why the run has ended"
    run.close()
    monkeypatch.setattr(Lane, "begin_epoch", begin)
    run = Run(spec_of(tmp_path, run_id="again"), tmp_path / "out", committed[-1])
    while run.epoch():
        pass
    run.close()
    check_lines(spec, tmp_path)


def test_a_snapshot_of_a_lane_that_takes_over_stays_until_spark_has_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane that died after its epoch is made again, and saves its own snapshot while the others close the epoch."""
    spec = spec_of(tmp_path)
    run = Run(spec, tmp_path / "out", (None, {}))
    saved = Path(spec.checkpoint) / "chunks" / "saved-by-the-second-attempt"
    saved.parent.mkdir()
    saved.write_bytes(b"state")
    there: list[bool] = []
    write = run.sink._write

    def written(rows: list[dict[str, Any]], batch: int) -> None:
        there.append(run.sink.record.batch == batch and saved.exists())
        write(rows, batch)

    monkeypatch.setattr(run.sink, "_write", written)
    assert run.epoch()
    assert there == [True]
    assert not saved.exists(), "no state names it"
    while run.epoch():
        pass
    run.close()
    check_lines(spec, tmp_path)


def test_loads_are_evened_out() -> None:
    def moved(*lanes: dict[str, float]) -> list[tuple[str, int, int]]:
        return plan_moves(list(lanes), 100.0)

    assert moved({"a": 40, "b": 30, "c": 20}, {"d": 10}) == [("a", 0, 1)]
    assert moved({"a": 20, "b": 15}, {"c": 30}) == [], "less than a tenth of the epoch"
    assert moved({"a": 90}, {"b": 1}) == [], "a lane keeps its last task"
    assert moved({"a": 90, "b": 0}, {"c": 1}) == [], "moving a would only turn the loads round"


@pytest.mark.parametrize("seed", range(10))
def test_a_run_that_begins_again_makes_the_logged_rounds(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new run has the state and offset that Spark committed, the round log, and the outputs as they are. Tasks
    change their lanes at random.
    """
    rng = random.Random(seed)

    def moves(work_us: list[dict[str, float]], *_: Any) -> list[tuple[str, int, int]]:
        place = 0 if len(work_us[0]) > 1 else 1
        return [(rng.choice(list(work_us[place])), place, 1 - place)] if rng.random() < 0.7 else []

    monkeypatch.setattr(epoch_server, "plan_moves", moves)
    committed: tuple[Any, Any] = (None, {})
    for life in range(30):
        epoch_us = rng.choice((100_000, 400_000, 10_000_000))
        run_id = f"{tmp_path.name} {life}"
        spec = spec_of(tmp_path, run_id=run_id, epoch_us=epoch_us, inline_bytes=rng.choice((500, 1 << 16)))
        run = Run(spec, tmp_path / "out", committed)
        run.tries_again = False
        CrashingRuntime.steps_left = rng.randrange(40) if life < 6 else None
        try:
            while run.epoch():
                if rng.random() < 0.8:  # otherwise Spark loses its commit, though the sink has the epoch
                    committed = run.offset, run.states
                elif life < 6:
                    raise Crash
                else:
                    committed = run.offset, run.states
            break
        except Crash:
            continue
        finally:
            run.close()
    assert run.sink.finished
    counts = run.sink.metrics.queries
    check_lines(spec, tmp_path)
    assert counts["means"].arrived == counts["last"].arrived
    total = spec.source("cars", 0).total()  # type: ignore[attr-defined]
    assert counts["last"].arrived == total, "metrics count every tuple once"
    assert counts["last"].out == len(lines(tmp_path / "out")["last"]) - 1


def test_a_torn_line_of_the_round_log_is_cut_off(tmp_path: Path) -> None:
    log = round_log.RoundLog(tmp_path, 3, 0, sync=False)
    log.append(Round(1, 10, [], {"task0": {"ranges": [], "shed": {}, "dropped": {}}}).encoded())
    log.append(Round(2, 20).encoded())
    log.close()
    path = round_log.path_of(tmp_path, 3, 0)
    path.write_bytes(path.read_bytes()[:-4])
    again = round_log.RoundLog(tmp_path, 3, 0, sync=False)
    assert [entry.number for entry in again.before] == [1]
    again.append(Round(2, 30, last=True).encoded())
    again.close()
    assert [(entry.number, entry.admitted_us, entry.last) for entry in round_log.read(path)[0]] == [
        (1, 10, False),
        (2, 30, True),
    ]


def test_logs_of_committed_epochs_are_trimmed(tmp_path: Path) -> None:
    for epoch in range(1, 8):
        round_log.RoundLog(tmp_path, epoch, 0, sync=False).close()
    round_log.trim(tmp_path, 6)
    assert round_log.epochs(tmp_path) == [4, 5, 6, 7]
