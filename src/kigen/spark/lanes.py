"""Decides how many lanes a run has: a lane holds a slot of Spark for a whole epoch.

At least one slot stays free for ingest and the user's own jobs. A Spark with a single slot gets one lane and short
epochs, so that other jobs wait a second at most. Invariant: the number of lanes is that of the checkpoint's first run,
since Spark's state is partitioned by it. A checkpoint that was begun without lanes goes on without.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from kigen.durable import replace as replace_file
from kigen.spark.session.masters import EXTRA_SLOTS, slots_of
from kigen.spark.spec import RunSpec

_FILE = "lanes.json"
SINGLE_SLOT_EPOCH_US = 1_000_000


class TooFewSlots(RuntimeError):
    """Spark cannot run all lanes of a checkpoint at once."""


def slots(spark: SparkSession) -> int:
    """Returns how many tasks Spark runs at once."""
    context = spark.sparkContext
    return slots_of(str(context.master)) or int(context.defaultParallelism)


def in_lanes(spark: SparkSession, spec: RunSpec) -> RunSpec:
    """Returns the specification with its number of lanes; 0 for runs without rounds."""
    if spec.draining or spec.warm_up or not spec.has_live_streams:
        return spec
    free = slots(spark)
    path, checkpoint = Path(spec.checkpoint) / _FILE, Path(spec.checkpoint)
    if path.exists():
        lanes = int(json.loads(path.read_bytes())["lanes"])
        if lanes > free:
            raise TooFewSlots(
                f"the checkpoint {checkpoint} has {lanes} lanes, and Spark runs {free} tasks at once: give Spark at "
                f"least {lanes + 1} slots, or start from the beginning with a new checkpoint"
            )
    elif (checkpoint / "spark" / "offsets").is_dir() or not spec.epoch_us:
        lanes = 0
    else:
        wanted = spec.lanes or spec.partitions or min(os.cpu_count() or 1, max(1, free - EXTRA_SLOTS))
        lanes = max(1, min(wanted, len(spec.tasks), free - 1))
    replace_file(path, json.dumps({"lanes": lanes}).encode(), spec.syncs)
    host = None
    if not str(spark.sparkContext.master).startswith("local"):
        host = spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1")
    epoch_us = min(spec.epoch_us, SINGLE_SLOT_EPOCH_US) if free == 1 else spec.epoch_us
    return replace(spec, lanes=lanes, host=host, epoch_us=epoch_us, holds_all_slots=lanes >= free)
