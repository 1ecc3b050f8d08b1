"""Runs on one Spark know whether their lanes hold all its slots together."""

from __future__ import annotations

import shutil
from pathlib import Path

from kigen.spark.scratch import Scratch
from kigen.spark.shared_slots import give_slots, take_slots


def scratch_of(tmp_path: Path, name: str) -> Scratch:
    (tmp_path / name).mkdir()
    return Scratch(str(tmp_path / name))


def test_runs_that_hold_all_slots_together_know_it(tmp_path: Path) -> None:
    one, two, other = (scratch_of(tmp_path, name) for name in ("one", "two", "other"))
    take_slots("app", 6, one, 3)
    take_slots("another", 6, other, 4)
    assert not one.slots_wanted, "it left slots for others"
    take_slots("app", 6, two, 3)
    assert one.slots_wanted
    assert two.slots_wanted
    assert not other.slots_wanted, "it runs on another Spark"
    give_slots("app", 6, two)
    give_slots("app", 6, two)
    assert not one.slots_wanted
    assert not two.slots_wanted
    give_slots("app", 6, one)
    give_slots("another", 6, other)


def test_a_slot_that_is_left_is_enough(tmp_path: Path) -> None:
    one, two = scratch_of(tmp_path, "one"), scratch_of(tmp_path, "two")
    take_slots("app", 6, one, 3)
    take_slots("app", 6, two, 2)
    assert not one.slots_wanted
    assert not two.slots_wanted
    give_slots("app", 6, one)
    give_slots("app", 6, two)


def test_the_directory_of_another_run_may_be_gone(tmp_path: Path) -> None:
    one, two = scratch_of(tmp_path, "one"), scratch_of(tmp_path, "two")
    take_slots("app", 4, one, 2)
    shutil.rmtree(tmp_path / "one")
    take_slots("app", 4, two, 2)
    assert two.slots_wanted
    give_slots("app", 4, one)
    assert not two.slots_wanted
    give_slots("app", 4, two)
