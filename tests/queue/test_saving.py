"""A queue that was saved into another folder opens with the same content."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from links.numbered import a_queue, content, rows

from kigen.queue import ENDED


@pytest.mark.parametrize("seed", range(20))
def test_a_saved_queue_opens_as_the_queue_was(seed: int, tmp_path: Path) -> None:
    rng, queue = Random(seed), a_queue(tmp_path / "own")
    queue.open_reader("r")
    queue.require(["r"])
    producer = queue.open_producer("p", counts=rng.choice(["tuples", "batches"]))
    end = 0
    for unit in range(rng.randrange(60)):
        count = rng.randrange(4)
        pieces = [rows(end + i, end + i + 1) for i in range(count)] if rng.random() < 0.5 else [rows(end, end + count)]
        sequence = unit if producer.counts == "batches" else end
        progress = rng.choice([None, unit * 10])
        queue.append(pieces, sequence, producer="p", epoch=producer.epoch, progress_us=progress)
        end += count
        if rng.random() < 0.3:
            queue.ack("r", rng.randint(0, end), note=str(unit))
    if rng.random() < 0.3:
        queue.progress(ENDED, "p", producer.epoch)
    assert queue.save(tmp_path / "saved" / "q") == (queue.status()["start"], queue.status()["end"])
    assert queue.save(tmp_path / "bare" / "q", rows=False) == (queue.status()["start"],) * 2
    with a_queue(tmp_path / "saved") as saved, a_queue(tmp_path / "bare") as bare:
        told, expected = saved.status(), queue.status()
        assert content(saved) == content(queue)
        for key in ("start", "end", "producers", "readers", "required", "note", "progress_us"):
            assert told[key] == expected[key], key
        for offset in range(expected["start"], expected["end"]):  # no watermark is higher than in the queue itself
            assert saved.read(offset, max_tuples=1).progress_us <= queue.read(offset, max_tuples=1).progress_us
        start = expected["start"]
        assert (bare.status()["start"], bare.status()["end"]) == (start, start)
        assert bare.status()["progress_us"] < ENDED
        if producer.counts == "tuples":
            bare.append(rows(start, end), start, producer="p")
            assert content(bare) == content(queue)
