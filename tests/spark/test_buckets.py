"""Buckets spread tasks over partitions: Kigen's hash is equal to Spark's."""

from __future__ import annotations

from kigen.engine import Engine
from kigen.spark.operator.buckets import bucket_of, hash_int, hash_text


def test_tasks_are_dealt_evenly_to_partitions_as_spark_hashes_them(engine: Engine) -> None:
    """Spark places a group by its hash, so Kigen's hash must be the same for any name."""
    names = ["task0", "task17", "t", "", "aufgabe-ä", "任務", "a longer name of a task"]
    rows = [(name, bucket) for name in names for bucket in (0, 1, 77, 2**31 - 1)]
    frame = engine.spark.createDataFrame(rows, "task string, bucket int").selectExpr("hash(task, bucket) AS h")
    assert [row.h % 2**32 for row in frame.collect()] == [
        hash_int(bucket, hash_text(name, 42)) for name, bucket in rows
    ]
    for partitions in (2, 4, 8):
        placed = [hash_int(bucket_of(f"task{i}", i), hash_text(f"task{i}", 42)) % partitions for i in range(16)]
        assert placed == [i % partitions for i in range(16)]
