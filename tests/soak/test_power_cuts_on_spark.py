"""Power cuts through Spark: images of what a disk would hold after a cut, taken in the middle of a run, and runs that
go on from them.

The sink's process writes through a disk that knows what was synced. Files that workers synced, and those of a Spark
that syncs them itself, are taken as they are; those of a Spark that does not are lost or torn unless the sink has
synced them. At random moments an image of all below the app's folder is put aside, without what was not synced, or with
torn parts of it. Each image must go on to the lines of an undisturbed run; without a Spark that syncs, Spark may also
say that its state is lost. KIGEN_CUTS images of each kind, 24 by default.
"""

from __future__ import annotations

import os
import random
import shutil
import tarfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from durable.power import PowerDisk

from kigen.durable import standing_in
from kigen.engine import Engine, RunFailed, run
from kigen.spark.session.start import sync_files

FROZEN = Path(__file__).parents[1] / "spark" / "frozen"
SMALL = {"drain": True, "batch_rows": 10, "inline_bytes": 1000, "keep_results": False}


class Watched(PowerDisk):
    """Goes on after a cut; the images are put aside. Several threads write."""

    def __init__(self, root: Path, rng: random.Random, images: Path, at: list[int], synced: tuple[str, ...]) -> None:
        super().__init__(
            root,
            rng,
            trusted=lambda path: path.split(os.sep)[-1][0] != "." and any(f"/{name}/" in path for name in synced),
        )
        self._images, self._at, self._count = images, sorted(at), 0

    def _tick(self) -> None:
        self._count += 1
        if self._at and self._count >= self._at[0]:
            self._at.pop(0)
            self.restart(self._images / str(self._count))


def lines(folder: Path) -> tuple[list[str], list[str]]:
    table = pq.read_table(folder / "out" / "arrivals")
    columns = [table[name].to_pylist() for name in ("room", "temp", "_at")]
    arrivals = sorted(f"{room},{temp},{at.isoformat()}" for room, temp, at in zip(*columns, strict=True))
    return sorted((folder / "out" / "hot.csv").read_text(encoding="utf-8").splitlines()), arrivals


@pytest.mark.parametrize("spark_syncs", [True, False])
def test_runs_go_on_from_what_power_cuts_leave(
    spark_syncs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not spark_syncs:
        monkeypatch.setattr(run, "sync_files", lambda spark, wanted: sync_files(spark, False))
    synced = ("chunks", "spark") if spark_syncs else ("chunks",)
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    rng, wanted, done = random.Random(seed), int(os.environ.get("KIGEN_CUTS", "24")), 0
    expected = sorted((FROZEN / "hot.csv").read_text().splitlines()), (FROZEN / "arrivals.txt").read_text().splitlines()
    with Engine() as engine:
        while done < wanted:
            root, images = tmp_path / f"run{done}" / "app", tmp_path / f"run{done}" / "images"
            root.mkdir(parents=True)
            with tarfile.open(FROZEN / "format-1.tar.gz") as tar:
                tar.extractall(root, filter="data")
            for old in ("checkpoint", "out", "queues"):
                shutil.rmtree(root / old)
            with standing_in(Watched(root, rng, images, [rng.randrange(400) for _ in range(4)], synced)):
                engine.run(root / "rooms.cql", checkpoint=str(root / "checkpoint"), **SMALL)
            assert lines(root) == expected
            for image in sorted(images.iterdir()):
                where = f"seed {seed}, run{done}, after {image.name} changes"
                done += 1
                (image / "checkpoint" / "owner.json").unlink(
                    missing_ok=True
                )  # this very process, which a real cut would have ended
                try:
                    assert engine.run(image / "rooms.cql", checkpoint=str(image / "checkpoint"), **SMALL).finished, (
                        where
                    )
                except RunFailed as error:
                    if spark_syncs or "state" not in str(error).lower():
                        raise AssertionError(where) from error
                    continue
                assert lines(image) == expected, where
