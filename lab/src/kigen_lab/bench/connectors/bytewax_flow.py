"""The same selection in bytewax, with what suits it best: large batches, orjson, one step over whole batches.

Runs as `python -m bytewax.run kigen_lab.bench.connectors.bytewax_flow:flow`, in one process or in several, with its
settings in the environment. It keeps no recovery data, so it is at least once at best.
"""

from __future__ import annotations

import os
from typing import Any

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow

from kigen_lab.bench.connectors.topics import LEAST_SPEED

_BATCH = 10_000


def select(batch: list[Any]) -> list[Any]:
    """Decodes a batch of messages, and encodes those that are selected."""
    cars = [orjson.loads(message.value) for message in batch]
    return [KafkaSinkMessage(None, orjson.dumps(car)) for car in cars if car["speed"] > LEAST_SPEED]


def selection(brokers: str, topic: str, target: str) -> Any:
    flow = Dataflow("selection")
    source = KafkaSource(
        [brokers],
        [topic],
        batch_size=_BATCH,
        add_config={"queued.max.messages.kbytes": "65536", "isolation.level": "read_committed"},
    )
    settings = {"linger.ms": "5", "batch.size": "1000000", "queue.buffering.max.messages": "1000000"}
    cars = op.input("cars", flow, source)
    op.output("fast", op.flat_map_batch("select", cars, select), KafkaSink([brokers], target, add_config=settings))
    return flow


if "KIGEN_BENCH_BROKERS" in os.environ:
    flow = selection(
        os.environ["KIGEN_BENCH_BROKERS"], os.environ["KIGEN_BENCH_TOPIC"], os.environ["KIGEN_BENCH_TARGET"]
    )
