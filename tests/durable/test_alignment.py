"""Compares Spark's logs with the sink log, in every combination that a power cut can leave of a short run."""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path

import pytest

from kigen.durable import DamagedFile
from kigen.spark.sink.alignment import LogFiles, Unaligned, align, decide


def subsets(numbers: range) -> list[frozenset[int]]:
    return [frozenset(c) for c in chain.from_iterable(combinations(numbers, n) for n in range(len(numbers) + 1))]


@pytest.mark.parametrize("cut_back", [True, False])
def test_every_combination_fits_afterwards_or_is_refused(cut_back: bool) -> None:
    """Spark needs the offsets of its last batch and of the one before, and no commit of a batch without a record."""
    gone_on = refused = 0
    for offsets in subsets(range(4)):
        for torn in subsets(range(4)):
            for commits in subsets(range(3)):
                for records in [
                    frozenset(range(first, end)) for end in range(4) for first in range(max(0, end - 3), max(1, end))
                ]:
                    found = LogFiles(offsets - torn, commits, records, torn & offsets)
                    try:
                        dropped = decide(found, cut_back)
                    except Unaligned:
                        refused += 1
                        continue
                    gone_on += 1
                    left, record = offsets - set(dropped.offsets), max(records - set(dropped.records), default=-1)
                    last = max(left, default=-1)
                    assert last in (record, record + 1)
                    assert last not in torn
                    assert last <= 0 or last - 1 in left - torn or record == last
                    assert not [n for n in commits - set(dropped.commits) if n > record]
                    assert cut_back or record == max(records, default=-1)
    assert gone_on > 100
    assert refused > 100


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_an_empty_offset_of_a_batch_that_nobody_saw_is_dropped(tmp_path: Path) -> None:
    for n in range(3):
        write(tmp_path / "spark" / "offsets" / str(n), "" if n == 2 else 'v1\n{}\n{"seq": 1}')
        write(tmp_path / "sink" / f"{n}.json", "{}")
    (tmp_path / "sink" / "2.json").unlink()
    assert align(tmp_path, can_cut_back=False).offsets == [2]
    assert sorted(path.name for path in (tmp_path / "spark" / "offsets").iterdir()) == ["0", "1"]


def test_a_lost_offset_behind_rows_that_were_sent_is_an_error(tmp_path: Path) -> None:
    for n in range(3):
        write(tmp_path / "spark" / "offsets" / str(n), 'v1\n{}\n{"seq": 1}' if n < 2 else "")
        write(tmp_path / "sink" / f"{n}.json", "{}")
    with pytest.raises(
        DamagedFile, match=r"offsets: the sink log reaches batch 2.*batches 0 to 1.*durability = process"
    ):
        align(tmp_path, can_cut_back=False)
    assert align(tmp_path, can_cut_back=True).records == [2]
