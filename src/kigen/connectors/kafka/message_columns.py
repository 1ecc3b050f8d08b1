"""Takes columns from a message's key, headers, topic, partition, offset and timestamp: `columns = 'k = key'`.

A key or header is text in UTF-8 and is converted as a field of a csv file is; a column that is not named comes from the
value, by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.connectors.bad_rows import null_timestamp, wrong_type
from kigen.connectors.casting import convert
from kigen.connectors.kafka.decoding import Fault
from kigen.connectors.options import OptionError
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, Type

_TYPES = {"partition": Type.BIGINT, "offset": Type.BIGINT, "timestamp": Type.TIMESTAMP, "topic": Type.STRING}
_PLACES = "key, header.NAME, topic, partition, offset or timestamp"
Message = Any  # confluent_kafka.Message


class MessageColumns:
    """The columns of a stream by where they come from. `taken` has those outside the value, by column index."""

    def __init__(self, stream: SourceStream) -> None:
        self.stream = stream
        self.taken = self._parse(str(stream.source.option("columns", "")))
        self.in_value = [i for i in range(len(stream.schema)) if i not in self.taken]

    @property
    def value_schema(self) -> Schema:
        return tuple(self.stream.schema[i] for i in self.in_value)

    @property
    def value_timestamp(self) -> int | None:
        """The place of TIMESTAMP BY among the columns of the value."""
        at = self.stream.timestamp
        return self.in_value.index(at) if at in self.in_value else None

    def _parse(self, text: str) -> dict[int, str]:
        found: dict[int, str] = {}
        owner = f"stream '{self.stream.name}'"
        for part in text.split(","):
            name, equals, place = (word.strip() for word in part.partition("="))
            if not part.strip():
                continue
            index = next((i for i, c in enumerate(self.stream.schema) if c.name.lower() == name.lower()), None)
            if not equals or not (place in ("key", *_TYPES) or place.startswith("header.")):
                raise OptionError(
                    f"{owner}: columns must be 'column = place, ...' (a place is {_PLACES}), found {part.strip()!r}",
                    "columns",
                )
            if index is None:
                listed = ", ".join(c.name for c in self.stream.schema)
                raise OptionError(
                    f"{owner}: columns names {name}, which is not a column; there are: {listed}", "columns"
                )
            column = self.stream.schema[index]
            if place in _TYPES and column.type is not _TYPES[place]:
                raise OptionError(
                    f"{owner}: column {name} is {column.type}, but the {place} of a message is {_TYPES[place]}",
                    "columns",
                )
            found[index] = place
        return found

    def values(self, index: int, messages: Sequence[Message]) -> tuple[pa.Array, dict[int, Fault]]:
        """Returns a column that is not in the value, one entry per message, and what is wrong with bad ones."""
        place, column = self.taken[index], self.stream.schema[index]
        if place == "partition":
            return pa.array([m.partition() for m in messages], pa.int64()), {}
        if place == "offset":
            return pa.array([m.offset() for m in messages], pa.int64()), {}
        if place == "topic":
            return pa.array([m.topic() for m in messages], pa.string()), {}
        if place == "timestamp":
            return pa.array(broker_times_us(messages)).view(pa.timestamp("us")), {}
        texts = [_text(m, place) for m in messages]
        values, misfits = convert(pa.array(texts, pa.binary()), column.type)
        faults: dict[int, Fault] = {}
        for at in misfits.tolist():
            faults[at] = column.name, wrong_type((texts[at] or b"").decode(errors="backslashreplace"), column.type)
        if index == self.stream.timestamp:
            for at, text in enumerate(texts):
                if text is None:
                    faults[at] = column.name, null_timestamp(f"no {place}")
        return values, faults


def broker_times_us(messages: Sequence[Message]) -> npt.NDArray[np.int64]:
    """Returns the timestamp of each message at the broker (or its producer, as the topic is configured)."""
    return np.array([m.timestamp()[1] for m in messages], np.int64) * 1000


def _text(message: Message, place: str) -> bytes | None:
    value: Any
    if place == "key":
        value = message.key()
    else:
        name = place.removeprefix("header.")
        value = next((v for n, v in reversed(message.headers() or []) if n == name), None)
    return value.encode() if isinstance(value, str) else value
