"""Epochs on Spark: a run that is stopped ends its epoch, and other jobs run while one lasts."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from round_kills import APP, start

from kigen.engine import Engine
from kigen.plan import load_app
from kigen.spark.lanes import SINGLE_SLOT_EPOCH_US, in_lanes
from kigen.spark.session.masters import slots_of, with_extra_slots
from kigen.spark.spec import RunSpec

CARS = """CREATE STREAM cars (id BIGINT) FROM synthetic (rate = 50, seed = 7, id = 'sequence');
CREATE QUERY a AS ISTREAM(SELECT id FROM cars [NOW]);
CREATE QUERY b AS SELECT COUNT(*) AS n FROM cars [RANGE 1 SECONDS];
CREATE QUERY c AS SELECT MAX(id) AS m FROM cars [ROWS 9];"""


@dataclass
class Master:
    """The part of a SparkSession that the number of lanes depends on."""

    master: str
    cores: int = 8

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        conf = SimpleNamespace(get=lambda key, default: "10.0.0.9" if key == "spark.driver.host" else default)
        return SimpleNamespace(master=self.master, defaultParallelism=self.cores, getConf=lambda: conf)


def lanes_on(master: str, tmp_path: Path, **changes: Any) -> RunSpec:
    app = tmp_path / "cars.cql"
    app.write_text(CARS, encoding="utf-8")
    (tmp_path / "ck").mkdir(exist_ok=True)
    values: dict[str, Any] = {"draining": False, "epoch_us": 30_000_000, **changes}
    spec = RunSpec(load_app(str(app)), "run", str(tmp_path / "ck"), str(tmp_path), **values)
    return in_lanes(Master(master), spec)  # type: ignore[arg-type]


def test_a_slot_stays_free(tmp_path: Path) -> None:
    for master, wanted, lanes in (("local[4]", 3, 3), ("local[2]", 3, 1), ("local[8]", 2, 2), ("spark://h:1", 9, 3)):
        (tmp_path / master.replace("/", "")).mkdir()
        assert lanes_on(master, tmp_path / master.replace("/", ""), lanes=wanted).lanes == lanes


def test_a_spark_with_one_slot_gets_short_epochs(tmp_path: Path) -> None:
    spec = lanes_on("local[1]", tmp_path)
    assert (spec.lanes, spec.epoch_us, spec.holds_all_slots) == (1, SINGLE_SLOT_EPOCH_US, True)


def test_a_checkpoint_whose_lanes_hold_all_slots_does_not_idle(tmp_path: Path) -> None:
    assert not lanes_on("local[4]", tmp_path, lanes=3).holds_all_slots
    assert lanes_on("local[3]", tmp_path).holds_all_slots, "a feed or a refreshed table would wait for ever"


def test_workers_of_a_cluster_reach_admission_by_the_drivers_address(tmp_path: Path) -> None:
    assert lanes_on("spark://h:7077", tmp_path).host == "10.0.0.9"
    assert lanes_on("local[4]", tmp_path).host is None


def test_a_checkpoint_keeps_its_lanes(tmp_path: Path) -> None:
    assert lanes_on("local[8]", tmp_path, lanes=3).lanes == 3
    assert lanes_on("local[8]", tmp_path, lanes=1).lanes == 3
    assert lanes_on("local[8]", tmp_path, epoch_us=0).lanes == 3


def test_a_checkpoint_that_began_without_lanes_goes_on_without(tmp_path: Path) -> None:
    assert lanes_on("local[8]", tmp_path, epoch_us=0).lanes == 0
    assert lanes_on("local[8]", tmp_path).lanes == 0


def test_masters_of_one_machine() -> None:
    assert with_extra_slots("local[3]") == "local[5,4]"
    assert with_extra_slots("local[3,1]") == "local[3,1]"
    assert with_extra_slots("spark://h:7077") == "spark://h:7077"
    assert [slots_of(m) for m in ("local", "local[7]", "local[2, 9]", "local[*]", "yarn")] == [
        1,
        7,
        2,
        os.cpu_count(),
        None,
    ]


def logged(checkpoint: Path) -> int:
    """Returns how many rounds the logs of the lanes have."""
    return sum(path.read_bytes().count(b"\n") for path in (checkpoint / "rounds").glob("*.log"))


@pytest.mark.timeout(600)
def test_sigterm_ends_the_epoch(tmp_path: Path) -> None:
    app, checkpoint = tmp_path / "app.cql", tmp_path / "ck"
    app.write_text(APP.format(rate=100, seconds=600, start=""), encoding="utf-8")
    process = start(app, tmp_path / "out", checkpoint)
    until = time.monotonic() + 200
    while logged(checkpoint) < 20:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert "the same command continues" in errors
    batches = [int(path.stem) for path in (checkpoint / "sink").glob("[0-9]*.json")]
    assert batches, "the epoch is in the sink log"
    assert (checkpoint / "spark" / "commits" / str(max(batches))).exists(), "and Spark has committed it"
    assert not list((checkpoint / "sink").glob("*.rounds"))
    first = json.loads((checkpoint / "sink" / f"{max(batches)}.json").read_bytes())
    assert first["metrics"]["batches"] > 3, "of many rounds"


@pytest.mark.timeout(600)
def test_a_users_job_ends_during_an_epoch(engine: Engine, tmp_path: Path) -> None:
    app = tmp_path / "cars.cql"
    app.write_text(CARS, encoding="utf-8")
    run = engine.start(app, checkpoint=tmp_path / "ck", keep_results=False, epoch_s=600)
    until = time.monotonic() + 200
    while not run.progress.batches and time.monotonic() < until:
        time.sleep(0.05)
    before = run.progress.batches
    assert engine.spark.range(1000).repartition(2).count() == 1000
    while run.progress.batches <= before and time.monotonic() < until:
        time.sleep(0.05)
    assert run.progress.batches > before
    assert not list((tmp_path / "ck" / "sink").glob("[0-9]*.json")), "the first epoch still lasts"
    run.stop()
