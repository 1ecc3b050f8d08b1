"""Frozen checkpoints of older formats: a run continues to the lines of an undisturbed run, or the command says what to
do."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.durable import DamagedFile
from kigen.engine import Engine
from kigen.engine.checkpoint.app_record import read_record
from kigen.engine.checkpoint.formats import FORMAT, CheckpointFormatError, migrated
from kigen.queue import Queue, QueueSettings

FROZEN = (
    Path(__file__).parent / "frozen"
)  # stopped after batch 23 of 30; with snapshots, a csv and a parquet output, and a queue


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(FROZEN / "format-1.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_checkpoint_of_format_1_goes_on(engine: Engine, old: Path) -> None:
    description = json.loads((old / "checkpoint" / "app.json").read_bytes())
    assert description["format"] == 1
    result = engine.run(old / "rooms.cql", drain=True, checkpoint=str(old / "checkpoint"), keep_results=False)
    assert result.finished
    assert sorted((old / "out" / "hot.csv").read_text().splitlines()) == sorted(
        (FROZEN / "hot.csv").read_text().splitlines()
    )
    table = pq.read_table(old / "out" / "arrivals")
    columns = [table[name].to_pylist() for name in ("room", "temp", "_at")]
    lines = sorted(f"{room},{temp},{at.isoformat()}" for room, temp, at in zip(*columns, strict=True))
    assert lines == (FROZEN / "arrivals.txt").read_text().splitlines()
    assert json.loads((old / "checkpoint" / "app.json").read_bytes())["format"] == FORMAT


def test_a_queue_of_format_1_opens_with_and_without_syncs(old: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    for fsync in ("never", "always"):
        with Queue("numbers", schema, QueueSettings(folder=old / "queues", durable=True, fsync=fsync)) as queue:
            rows = [v for b in queue.read(queue.status()["start"]).batches() for v in b.column(1).to_pylist()]
            assert rows == list(range(4, 18))
            assert queue.status()["producers"]["spark"]["next"] == 6


def test_a_checkpoint_of_a_later_kigen_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        CheckpointFormatError, match=r"format 9, written by Kigen 7\.0.*reads formats 1 to .*Drain it.*new --checkpoint"
    ):
        migrated({"format": 9, "kigen": "7.0"}, {"kigen": "1"})


@pytest.mark.parametrize("torn", [b"", b'{"format": 1, "ki', b"null", b'{"format": 1}', b"\xff\x00"])
def test_a_torn_description_is_named(torn: bytes, tmp_path: Path) -> None:
    (tmp_path / "app.json").write_bytes(torn)
    with pytest.raises(DamagedFile, match=r"app\.json: it is torn.*Restore it.*new --checkpoint"):
        read_record(tmp_path, "1")
