"""Messages of a broker through Spark, and a run that ends because of a bad one."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from kigen_lab.servers.mosquitto import Mosquitto as Broker

from kigen.connectors import InputError
from kigen.engine import Engine

APP = """CREATE STREAM m (room STRING, temp DOUBLE)
  FROM mqtt (broker = '{broker}', topic = 'rooms/+/temp', format = 'raw', columns = 'room = topic[1]');
CREATE QUERY hot AS ISTREAM(SELECT room, temp FROM m [NOW] WHERE temp > 30);
"""


def lines(path: Path) -> list[tuple[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [(row["room"], row["temp"]) for row in csv.DictReader(file)]


@pytest.mark.timeout(600)
def test_messages_become_results_and_a_bad_one_ends_the_run(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    broker = Broker(folder)
    try:
        app = APP.format(broker=broker.address)
        run = engine.start(text=app, output=tmp_path / "out", checkpoint=tmp_path / "ck", keep_results=False)
        broker.await_subscriptions(1)
        broker.publish(("rooms/a/temp", "31.5"), ("rooms/b/temp", "20"), ("rooms/c/temp", "40"))
        until = time.monotonic() + 240
        while len(lines(tmp_path / "out" / "hot.csv")) < 2:
            assert run.active
            assert time.monotonic() < until
            time.sleep(0.05)
        broker.publish(("rooms/a/temp", "warm"))
        while run.active:
            assert time.monotonic() < until
            time.sleep(0.05)
        with pytest.raises(InputError, match="field 'temp': DOUBLE required"):
            run.stop()
        assert lines(tmp_path / "out" / "hot.csv") == [("a", "31.5"), ("c", "40.0")]
    finally:
        broker.stop()
