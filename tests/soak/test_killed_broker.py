"""Tests `INTO kafka` while its broker is killed and started again: each row is there once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kigen_lab.servers.kafka_broker import running_broker

from kigen.connectors import SinkRequest
from kigen.connectors.kafka.sink import KafkaSink
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type

pytestmark = pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="long: set KIGEN_SOAK=1")


def lines(first: int, end: int) -> pa.Table:
    return pa.table({"c0": list(range(first, end)), "_at": [i * 1000 for i in range(first, end)]})


def test_a_broker_that_is_killed_is_waited_for(tmp_path: Path) -> None:
    """The open transaction survives, or is sent again."""
    with running_broker(tmp_path / "broker") as broker:
        broker.create("killed")
        options: dict[str, Any] = {"brokers": broker.address, "topic": "killed"}
        out = KafkaSink(
            SinkRequest(Connector("kafka", tuple(options.items())), (Column("id", Type.BIGINT),), True, ".", "q")
        )
        out.open(None)
        for at in range(0, 80, 20):
            out.write(lines(at, at + 20))
            if at:
                broker.kill()
                broker.start()
            out.commit()
        out.close()
        found = sorted(json.loads(value or b"{}")["id"] for _, value in broker.committed("killed"))
        assert found == list(range(80))
