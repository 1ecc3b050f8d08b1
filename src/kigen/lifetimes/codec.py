"""Encodes state as bytes: a tree of dicts, lists, numbers, numpy arrays and Arrow batches, written as JSON, followed by
the arrays in Arrow IPC.

It does not use pickle, so decoding yields only data. The bytes begin with a format number; another number is refused.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

FORMAT = 1


class StateFormatError(ValueError):
    """The state was written in another version of the format."""


def encode(tree: Any) -> bytes:
    batches: list[pa.RecordBatch] = []

    def walk(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            batches.append(pa.RecordBatch.from_arrays([pa.array(value)], names=["a"]))
            return {"$array": len(batches) - 1}
        if isinstance(value, pa.RecordBatch):
            batches.append(value)
            return {"$batch": len(batches) - 1}
        if isinstance(value, dict):
            return {"$dict": {k: walk(v) for k, v in value.items()}}
        if isinstance(value, (list, tuple)):
            return [walk(v) for v in value]
        if isinstance(value, np.integer):
            return int(value)
        return value

    head = json.dumps({"format": FORMAT, "tree": walk(tree)}).encode()
    sink = pa.BufferOutputStream()
    sink.write(len(head).to_bytes(8, "little"))
    sink.write(head)
    for batch in batches:
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, batch.schema) as writer:
            writer.write_batch(batch)
        data = body.getvalue()
        sink.write(data.size.to_bytes(8, "little"))
        sink.write(data)
    return bytes(sink.getvalue())


def decode(data: bytes) -> Any:
    view = pa.py_buffer(data)
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    if head["format"] != FORMAT:
        raise StateFormatError(
            f"state of format {head['format']}; this version reads format {FORMAT}: start with a new checkpoint"
        )
    batches: list[pa.RecordBatch] = []
    at = 8 + size
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        with pa.ipc.open_stream(view.slice(at + 8, length)) as reader:
            read = list(reader)
            batches.append(
                read[0]
                if read
                else pa.RecordBatch.from_arrays(
                    [pa.array([], type=f.type) for f in reader.schema], schema=reader.schema
                )
            )
        at += 8 + length

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            if "$array" in value:
                return np.array(batches[value["$array"]].column(0).to_numpy(zero_copy_only=False))
            if "$batch" in value:
                return batches[value["$batch"]]
            return {k: walk(v) for k, v in value["$dict"].items()}
        if isinstance(value, list):
            return [walk(v) for v in value]
        return value

    return walk(head["tree"])
