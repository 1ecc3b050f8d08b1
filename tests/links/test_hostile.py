"""Bytes from an attacker: a poisoned block is stored nowhere and crashes nothing, and thousands of mutations do no
harm.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from links.hostile import SCHEMA, message, poisoned, rows

from kigen.links import Link, LinkServer, Patience
from kigen.links.flight.protocol import READ, parse, request
from kigen.links.flight.server import EMPTY_SCHEMA
from kigen.queue import BadRequest, Queue
from kigen.queue.block_layout import check_layout, layout_of
from kigen.queue.payload import CODECS, encode, encode_all

HOSTILE = Path(__file__).with_name("hostile.py")
PATIENCE = Patience(patience_s=0.0, call_s=5.0)


def test_a_poisoned_block_is_not_stored() -> None:
    """Its checksums are right and Arrow's quick validation accepts it.

    Reading its texts would follow an offset out of the block.
    """
    with (
        Queue("s", SCHEMA) as queue,
        LinkServer([queue]) as server,
        Link(str(server.address), server.security, PATIENCE) as link,
    ):
        epoch = link.open_producer("s", "p")["epoch"]
        command = request(stream="s", producer="p", epoch=epoch)
        client = link.connection.client()
        writer, acks = client.do_put(
            fl.FlightDescriptor.for_command(command), EMPTY_SCHEMA, link.connection.options(10.0)
        )
        writer.write_metadata(message(poisoned()))
        writer.done_writing()
        assert acks.read() is None, "no ack"
        with pytest.raises(fl.FlightServerError, match="does not match the stream's columns"):
            writer.close()
        assert queue.status()["end"] == 0


def test_a_poisoned_block_that_was_stored_before_is_an_error_and_no_crash() -> None:
    """An older version may have stored it: the reader gets an error and survives."""
    with (
        Queue("s", SCHEMA) as queue,
        LinkServer([queue]) as server,
        Link(str(server.address), server.security, PATIENCE) as link,
    ):
        queue.open_producer("p", 1)
        queue.append_encoded([poisoned(2000)], 0, producer="p", epoch=1)
        with pytest.raises(BadRequest, match="does not match the stream's columns"):
            link.read("s", 0)
        with pytest.raises(BadRequest, match="does not match the stream's columns"):
            queue.read(0).batch()


def test_a_block_must_hold_what_its_head_says() -> None:
    data = encode(rows(9)).data
    assert layout_of(data).rows == 9
    check_layout(data, 9, SCHEMA)
    with pytest.raises(BadRequest, match="8 rows"):
        check_layout(data, 8, SCHEMA)
    with pytest.raises(BadRequest, match="columns need"):
        check_layout(data, 9, pa.schema(list(SCHEMA)[:3]))
    squeezed = rows(9).serialize  # buffers that Arrow compresses may claim any size
    assert not layout_of(squeezed()).compressed
    packed = pa.BufferOutputStream()
    with pa.ipc.new_stream(packed, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as out:
        out.write_batch(rows(9))
    reader = pa.ipc.MessageReader.open_stream(packed.getvalue())
    reader.read_next_message()  # the schema
    with pytest.raises(BadRequest, match="Arrow compressed"):
        check_layout(reader.read_next_message().serialize(), 9, SCHEMA)


def test_a_compressed_block_cannot_claim_any_size() -> None:
    from kigen.queue.payload import decode

    packed = encode(rows(400), CODECS["zlib"])
    for claimed in (0, 2**31, 2**32 - 1):
        data = pa.py_buffer(claimed.to_bytes(4, "little") + bytes(packed.data)[4:])
        with pytest.raises(BadRequest, match="are allowed"):
            decode(data, packed.codec, SCHEMA, 400)


def test_a_large_batch_becomes_several_blocks() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["x" * (1 << 20)] * 150)], names=["a"])
    blocks = list(encode_all(batch))
    assert [b.count for b in blocks] == [50, 50, 50]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tuples": 0},
        {"max_bytes": 0},
        {"offset": -1},
        {"offset": 2**62},
        {"follow_s": float("nan")},
        {"wait_s": -1},
        {"reader": "x" * 200},
        {"reader": "a\nb"},
    ],
)
def test_requests_out_of_bounds(wrong: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match=next(iter(wrong))):
        parse(request(**{"stream": "s", "offset": 0, **wrong}), READ)


def test_waits_are_cut() -> None:
    how = parse(request(stream="s", offset=0, follow_s=1e9, wait_s=1e9), READ)
    assert (how["follow_s"], how["wait_s"]) == (60.0, 3600.0)


@pytest.mark.parametrize(("what", "seed", "count"), [("records", 1, 4000), ("records", 2, 4000), ("requests", 3, 2000)])
def test_ten_thousand_mutations(what: str, seed: int, count: int) -> None:
    """Runs in another process, so that a crash is a failure of this test only."""
    done = subprocess.run(
        [sys.executable, str(HOSTILE), what, str(seed), str(count)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    counts = json.loads(done.stdout)
    assert sum(counts.values()) == count
    assert counts["refused"] > count // 3
