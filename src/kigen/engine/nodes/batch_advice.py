"""Chooses the batch of nodes with `batch = "auto"` from what `kigen bench standby --json FILE` measured.

The node names the file (`figures`, relative to the nodes file) and its limit (`recovery_within` or `overhead_below`).
Only cells with the node's `compress` count. Invariant: afterwards every node with a lazy standby has a batch, or its
standby is `upstream`.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from kigen.placement.nodes_file.entries import NodeEntry, NodesFile, NodesFileError
from kigen.replicas.batch_advisor import Measured, NoBatch, advise
from kigen.replicas.standby_kind import PASSIVE


def with_batches(nodes: NodesFile) -> tuple[NodesFile, list[str]]:
    """Returns the nodes with their batches, and a line per choice: what was chosen, and why."""
    entries, errors, notes = [], list[str](), list[str]()
    for entry in nodes.nodes:
        if entry.standby != "lazy" or entry.batch is not None:
            entries.append(entry)
            continue
        try:
            chosen, why = _chosen(entry, Path(nodes.file).parent)
            entries.append(chosen)
            notes.append(f"node {entry.name}: {why}")
        except ValueError as error:
            errors.append(f"[nodes.{entry.name}] batch = 'auto': {error}")
    if errors:
        raise NodesFileError(nodes.file, tuple(errors))
    return replace(nodes, nodes=tuple(entries)), notes


def _chosen(entry: NodeEntry, folder: Path) -> tuple[NodeEntry, str]:
    try:
        # if both limits are given, recovery decides: a standby exists to recover quickly
        within = entry.recovery_within_us
        advice = advise(
            _measured(entry, folder),
            recovery_within_us=within,
            overhead_below=entry.overhead_below if within is None else None,
        )
    except NoBatch as error:
        raise ValueError(f"{error}; allow more, or measure other batches") from error
    figures = f"recovery {advice.recovery_us / 1e6:.2g} s, overhead {advice.overhead:.0%}; {advice.why}"
    if math.isinf(advice.batch):
        return replace(entry, standby="upstream"), f"standby = 'upstream' ({figures})"
    return replace(entry, batch=int(advice.batch)), f"batch = {advice.batch:g} ({figures})"


def _measured(entry: NodeEntry, folder: Path) -> list[Measured]:
    if entry.figures is None:
        raise ValueError(
            'figures are required: run `kigen bench standby --json standby.json`, then write figures = "standby.json"'
        )
    how = f"run `kigen bench standby --json {entry.figures}` first"
    try:
        result = json.loads((folder / entry.figures).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"figures = '{entry.figures}' holds no figures: {how}") from error
    if not isinstance(result, dict) or result.get("bench") != "standby":
        raise ValueError(f"figures = '{entry.figures}' holds no figures of standby: {how}")
    cells = [cell for cell in result["cells"] if cell["compress"] == entry.compress and cell.get("standby") != PASSIVE]
    if not cells:
        raise ValueError(f"figures = '{entry.figures}': none of its cells has compress = '{entry.compress}'")
    return [_of_cell(cell) for cell in cells]


def _of_cell(cell: dict[str, Any]) -> Measured:
    times_us = [1e6 * seconds for seconds in cell["recovery_s"]]
    spread = stdev(times_us) if len(times_us) > 1 else 0.0
    return Measured(
        math.inf if cell["batch"] is None else cell["batch"], cell["overhead"]["payload"], mean(times_us), spread
    )
