"""Messages of a broker to a run that is killed and started again, and its results at the broker: nothing is lost, and a
message that comes again is recognised."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from kigen_lab.servers.mosquitto import Mosquitto as Broker
from live_command import IS_SOAK, LiveCommand, seeded
from mqtt_ends import ROOMS, Reader, Sender

_KILLS = 10 if IS_SOAK else 1

APP = """
CREATE STREAM m (n BIGINT, room STRING) FROM mqtt (broker = '{broker}', topic = 'in/+', columns = 'room = topic[1]');
CREATE QUERY seen AS ISTREAM(SELECT n FROM m [NOW]);
CREATE QUERY sent AS ISTREAM(SELECT n, room FROM m [NOW]) INTO mqtt (broker = '{broker}', topic = 'sent');
CREATE QUERY tops AS SELECT room, MAX(n) AS top FROM m [UNBOUNDED] GROUP BY room
  INTO mqtt (broker = '{broker}', topic = 'tops', mode = 'upsert', key = 'room');
"""


def seen(folder: Path) -> list[int]:
    path = folder / "out" / "seen.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [int(row["n"]) for row in csv.DictReader(file)]


@pytest.mark.timeout(900 if _KILLS == 1 else 0)
def test_messages_survive_kills_once(tmp_path: Path) -> None:
    rng = seeded()
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker")
    command = LiveCommand(tmp_path, APP.format(broker=broker.address))
    reader, sender = Reader(broker), Sender(broker)
    try:
        command.start()
        broker.await_subscriptions(3)  # two of the reader; from now on the broker keeps what comes
        sender.start()
        for _ in range(_KILLS):
            goal = len(seen(tmp_path)) + rng.randrange(1, 800)
            command.wait_for(lambda goal=goal: len(seen(tmp_path)) >= goal)
            time.sleep(rng.uniform(0, 1.0))
            command.kill(with_jvm=rng.random() < 0.5)
            command.start()
        goal = len(seen(tmp_path)) + 200
        command.wait_for(lambda: len(seen(tmp_path)) >= goal)
        sent = sender.end()
        last = {f"r{room}": max(range(room, sent, ROOMS)) for room in range(ROOMS)}
        command.wait_for(lambda: len(seen(tmp_path)) >= sent and len(reader.rows) >= sent and reader.tops == last)
        command.stop()
        assert sorted(seen(tmp_path)) == list(range(sent)), "every message once"
        assert sorted(row["n"] for row in reader.rows.values()) == list(range(sent)), "every result once"
        print(f"{sent} messages, {reader.repeated} results came again and were recognised")
    finally:
        sender.end() if sender.is_alive() else None
        reader.close()
        command.kill()
        broker.stop()
