"""Finds declared columns that the files of a stream or table do not have, before anything runs.

Such a column is NULL in a run, so a wrong name would not be noticed. Invariant: a column that one of the files has that
were looked at is not found. Cost: the first records of the first and of the last file. Files that are not there, or
that cannot be read, are left to the run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kigen.connectors.describe.samples import FILES, Sample, sample_of
from kigen.connectors.options import OptionError
from kigen.connectors.source_base import InputError
from kigen.plan.logical import SourceStream


@dataclass(frozen=True)
class Lacking:
    """A column that is missing. `others` are the columns that the files have and the stream does not declare."""

    column: str
    message: str
    others: tuple[str, ...]


def lacking_columns(stream: SourceStream, directory: str) -> list[Lacking]:
    """Returns the columns that the looked-at files do not have, in the order of their declaration."""
    samples = _samples(stream, directory)
    if not samples:
        return []
    there = list(dict.fromkeys(name for sample in samples for name in sample.columns))
    known = {name.strip().casefold() for name in there}
    declared = {column.name.casefold() for column in stream.schema}
    others = tuple(name for name in there if name.strip().casefold() not in declared)
    where = " and ".join(os.path.relpath(sample.place) for sample in samples)
    found = []
    for index, column in enumerate(stream.schema):
        if column.name.casefold() not in known:
            is_required = index == stream.timestamp or index in stream.key
            what = "the run will not accept the file" if is_required else "it will be NULL"
            found.append(Lacking(column.name, f"column {column.name} is missing in {where}: {what}", others))
    return found


def _samples(stream: SourceStream, directory: str) -> list[Sample]:
    if stream.source.name not in FILES:
        return []
    try:
        first, last = (sample_of(stream.source, directory, which) for which in (0, -1))
    except (InputError, OptionError):
        return []
    samples = [first] if first.place == last.place else [first, last]
    return [sample for sample in samples if sample.columns]
