"""The stateful operator, as Spark's Python workers call it: for one task in a batch, or for one lane in an epoch.

A row with a task's input is a batch of one round: the results leave as rows to Spark's sink. A row with a lane is an
epoch: the worker asks admission for rounds until the epoch ends (kigen.spark.operator.lane). An error of the input
or of an expression leaves as a row of kind `error`. The sink then fails the batch, so nothing of it is kept. Spark
imports `run_group` by name: a function that is pickled by value would bring its own, empty cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pandas as pd

from kigen.spark.operator import result_rows
from kigen.spark.operator.lane.lane_runner import run_lane
from kigen.spark.operator.manifest import Manifest
from kigen.spark.operator.outbox import Encoders, decode_encoders
from kigen.spark.operator.range_reader import RangeReader
from kigen.spark.operator.task_step import ONE_AT_A_TIME, USER_ERRORS, ResultRow, TaskStep
from kigen.spark.spec import RunSpec

Key = tuple[str, int]  # task or lane, bucket


def run_group(
    key: Key, frames: Iterator[pd.DataFrame], state: Any, spec_text: str, encoders_text: str | None = None
) -> Iterator[pd.DataFrame]:
    """Processes the rows of one (task, bucket) in a batch. Spark calls this (applyInPandasWithState)."""
    spec = _spec(spec_text)
    encoders = None if encoders_text is None else decode_encoders(encoders_text)
    rows = sorted((int(r.seq), str(r.payload)) for frame in frames for r in frame.itertuples())
    payloads = [(seq, json.loads(text)) for seq, text in rows]
    if "gone" in payloads[0][1]:  # a change of the app has dropped the task
        state.remove()
        out: list[ResultRow] = []
    elif "epoch" in payloads[0][1]:
        out = run_lane(spec, payloads[0][1], state, encoders)
    else:
        with ONE_AT_A_TIME:
            out = _run_task(spec, (str(key[0]), int(key[1])), payloads, state, encoders)
    yield pd.DataFrame(out, columns=result_rows.COLUMNS)


def _run_task(
    spec: RunSpec, key: Key, payloads: list[tuple[int, dict[str, Any]]], state: Any, encoders: Encoders | None
) -> list[ResultRow]:
    manifest = Manifest.from_state(state.get) if state.exists else Manifest()
    reader = RangeReader(spec, payloads[0][1]["started_us"])
    step, last = TaskStep(spec, *key, manifest, reader, encoders), payloads[-1][0]
    out: list[ResultRow] = []
    try:
        step.watch.begin(
            last, {piece["stream"]: piece["end"] for _, payload in payloads for piece in payload["ranges"]}
        )
        for seq, payload in payloads:
            out += step.step(seq, payload)
        out += step.save()
        state.update(manifest.to_state())
        step.keep()
    except USER_ERRORS as error:
        return [step.error_row(last, error)]
    return out


@lru_cache(maxsize=4)
def _spec(text: str) -> RunSpec:
    return RunSpec.decode(text)
