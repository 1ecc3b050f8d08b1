"""Messages survive JSON; what is not a message is refused with what is wrong. Compression gives the bytes back, and
never grows them."""

from __future__ import annotations

import json
import random
from dataclasses import fields
from typing import Any

import pytest
from kigen_lab.simulate.standby.machine.compression import expand, squeeze
from kigen_lab.simulate.standby.machine.cuts import Cut, Mark
from kigen_lab.simulate.standby.machine.messages import KINDS, Message, from_json, to_json

BELOW = Mark(Cut.of({"q": 3}), Cut.of({"r": 4}), Cut.of({"r": 2}), copied=True)
MARK = Mark(Cut.of({"r": 2}), Cut.of({"s": 9, "t": 1}), Cut.of({"s": 5}), line=3, rests_on=(("M", BELOW),))
VALUES: dict[str, Any] = {"str": "N.0", "int": 7, "bool": True, "Cut": Cut.of({"r": 2}), "Mark": MARK}


def example(kind: type[Message]) -> Message:
    return kind(**{f.name: VALUES[str(f.type)] for f in fields(kind)})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_through_json_and_back(kind: type[Message]) -> None:
    message = example(kind)
    assert from_json(json.loads(json.dumps(to_json(message)))) == message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "Data2"}, "kind of message"),
        ({"extra": 1}, "a Level0 has"),
        ({"received": "7"}, "int required"),
        ({"received": True}, "int required"),
    ],
)
def test_what_is_no_message_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_json({**to_json(example(KINDS["Level0"])), **change})
    with pytest.raises(ValueError, match="a mark has"):
        from_json({**to_json(example(KINDS["Level1"])), "mark": {"outputs": {}}})


@pytest.mark.parametrize("codec", ["none", "zlib", "zstd", "lz4"])
@pytest.mark.parametrize("size", [0, 1, 33, 330, 33_000])
def test_squeezed_is_never_larger_and_comes_back(codec: Any, size: int) -> None:
    plain = bytes(random.Random(size).choices(b"0123456789.,:", k=size))
    done, sent = squeeze(codec, plain)
    assert len(sent) <= size
    assert expand(done, sent, size) == plain
    if size > 300 and codec in ("zlib", "zstd"):
        assert done == codec
    if done in ("zlib", "zstd"):  # raw lz4 does not know its size
        with pytest.raises((ValueError, OSError)):
            expand(done, sent, size + 1)
