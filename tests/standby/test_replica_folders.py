"""Folders of a passive replica: the newest counts, at whatever moment a kill came."""

from __future__ import annotations

import json
from pathlib import Path

from kigen.engine.nodes.replica_folders import ReplicaFolders, has_replica_folders
from kigen.links import LIST, copy_info


def grown(folders: ReplicaFolders, text: str, whole: bool = True) -> Path:
    part = folders.part()
    (part / "a").mkdir()
    (part / "a/x").write_text(text, encoding="utf-8")
    if whole:
        (part / LIST).write_text(
            json.dumps({"files": [["a/x", len(text), "m"]], "told": {"text": text}}), encoding="utf-8"
        )
    return part


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_copies_take_the_place_of_each_other_and_become_live(tmp_path: Path) -> None:
    folders = ReplicaFolders(tmp_path)
    assert folders.newest is None
    assert not has_replica_folders(tmp_path)
    assert folders.finish(grown(folders, "one"))
    assert folders.finish(grown(folders, "three"))
    assert names(tmp_path) == ["copy.2"]
    assert has_replica_folders(tmp_path)
    assert folders.copy == tmp_path / "copy.2"
    live = folders.begin()
    assert names(tmp_path) == ["live.2"]
    assert (live / "a/x").read_text() == "three"
    assert folders.copy is None, "its files change from now on: nothing may be taken over from them"
    (live / "a/x").write_text("more than before", encoding="utf-8")
    assert copy_info(live) is None
    assert copy_info(live, whole=False) == {"text": "three"}
    assert not folders.finish(grown(folders, "late")), (
        "a copy that comes late does not take the place of what is worked on"
    )
    assert ReplicaFolders(tmp_path).newest == live, "a restart finds it"
    folders.rest()
    assert folders.finish(grown(folders, "four"))
    assert names(tmp_path) == ["copy.3"]


def test_half_a_copy_is_none(tmp_path: Path) -> None:
    folders = ReplicaFolders(tmp_path)
    assert not folders.finish(grown(folders, "one", whole=False))
    assert folders.finish(grown(folders, "one"))
    grown(folders, "half", whole=False)
    assert ReplicaFolders(tmp_path).newest == tmp_path / "copy.1"
    (tmp_path / "copy.1/a/x").write_text("", encoding="utf-8")
    assert ReplicaFolders(tmp_path).newest is None, "the disk lost it"
    fresh = ReplicaFolders(tmp_path)
    assert fresh.begin().name == "live.1"


def test_what_a_kill_left_beside_the_newest_goes(tmp_path: Path) -> None:
    folders = ReplicaFolders(tmp_path)
    assert folders.begin().name == "live.1"
    folders.rest()
    assert folders.finish(grown(folders, "one"))
    (tmp_path / "live.1").mkdir()  # killed before it was removed
    assert ReplicaFolders(tmp_path).newest == tmp_path / "copy.2"
    assert names(tmp_path) == ["copy.2"]
