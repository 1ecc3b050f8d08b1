"""State survives encoding to bytes, empty parts included; another format is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes import codec


def test_round_trip() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["é", None, ""]), pa.array([1, None, 3])], names=["c0", "c1"])
    empty = batch.slice(0, 0)
    tree = {
        "a": np.arange(5),
        "none": None,
        "list": [1, np.zeros(0, dtype=np.int64), {"b": batch}],
        "e": empty,
        "big": -(2**62),
        "flag": True,
    }
    back = codec.decode(codec.encode(tree))
    assert back["a"].tolist() == [0, 1, 2, 3, 4]
    assert back["list"][0] == 1
    assert len(back["list"][1]) == 0
    assert back["list"][2]["b"].equals(batch)
    assert back["e"].schema == empty.schema
    assert (back["none"], back["big"], back["flag"]) == (None, -(2**62), True)


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "FORMAT", 99)
    data = codec.encode({})
    monkeypatch.undo()
    with pytest.raises(codec.StateFormatError, match="new checkpoint"):
        codec.decode(data)
