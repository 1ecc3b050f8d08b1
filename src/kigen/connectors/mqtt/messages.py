"""Turns MQTT messages into rows: columns from the payload (`json` or `raw`) and from levels of the topic.

`columns = 'room = topic[1], all = topic'` fills a column from a level, counted from 0, or from the whole topic.
Invariant: which message is a bad row, and why, depends on the message alone. Cost: one parse per message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kigen.connectors.options import OptionError
from kigen.connectors.pushed.decoding import JSON_LINES, decode_batch
from kigen.connectors.source_base import Rows
from kigen.plan.logical import SourceStream
from kigen.plan.types import Type

_PLACE = re.compile(r"\s*(\w+)\s*=\s*topic\s*(?:\[\s*(\d+)\s*\])?\s*", re.IGNORECASE)
_NUMBERS: dict[Type, type] = {Type.BIGINT: int, Type.DOUBLE: float}


@dataclass(frozen=True)
class Delivered:
    """A message as the broker delivered it."""

    topic: str
    payload: bytes


class Messages:
    """Decodes the messages of one stream."""

    def __init__(self, stream: SourceStream) -> None:
        """Raises OptionError for wrong options."""
        self._stream, self._owner = stream, f"stream '{stream.name}'"
        self._is_raw = stream.source.option("format", "json") == "raw"
        self._places = self._read_places(stream.source.option("columns"))
        self._types = {column.name: column.type for column in stream.schema}
        others = [column.name for column in stream.schema if column.name not in self._places]
        if self._is_raw and len(others) != 1:
            raise OptionError(
                f"{self._owner}: format = 'raw' fills exactly one column from the payload, but {len(others)} are left: "
                "name the others in columns, such as columns = 'room = topic[1]'",
                "format",
            )
        self._value = others[0] if self._is_raw else None

    def rows(self, messages: Sequence[Delivered], now_us: int) -> Rows:
        """Returns the rows of messages that arrive now. Raises InputError for the first bad one, unless ON ERROR SKIP;
        its line is the number of the message among these."""
        lines = b"\n".join(self._line(message) for message in messages)
        return decode_batch(lines, JSON_LINES, self._stream, now_us, f"{self._owner}, message")

    def _line(self, message: Delivered) -> bytes:
        """Returns a message as a line of JSON. What is no object stays as it is: then it is a bad row."""
        if self._value is not None:
            row: Any = {self._value: self._typed(self._value, message.payload.decode("utf-8", "replace"))}
        elif not self._places and b"\n" not in message.payload and message.payload.strip():
            return message.payload
        else:
            try:
                row = json.loads(message.payload)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                return json.dumps(message.payload.decode("utf-8", "replace")).encode()
        levels = message.topic.split("/")
        for column, level in self._places.items():
            text = message.topic if level is None else levels[level] if level < len(levels) else None
            row[column] = None if text is None else self._typed(column, text)
        return json.dumps(row).encode()

    def _typed(self, column: str, text: str) -> Any:
        """Returns text as a value of the column's type; text that is none stays text, which the decoder refuses."""
        kind = self._types[column]
        if kind is Type.BOOLEAN and text.strip().lower() in ("true", "false"):
            return text.strip().lower() == "true"
        try:
            return _NUMBERS[kind](text) if kind in _NUMBERS else text
        except ValueError:
            return text

    def _read_places(self, option: Any) -> dict[str, int | None]:
        places: dict[str, int | None] = {}
        names = {column.name.lower(): column.name for column in self._stream.schema}
        for part in [] if option is None else str(option).split(","):
            found = _PLACE.fullmatch(part)
            if found is None:
                raise OptionError(
                    f"{self._owner}: columns must be such as 'room = topic[1], all = topic', not {part.strip()!r}",
                    "columns",
                )
            if found[1].lower() not in names:
                known = ", ".join(names.values())
                raise OptionError(f"{self._owner}: columns names {found[1]}, and the columns are {known}", "columns")
            places[names[found[1].lower()]] = None if found[2] is None else int(found[2])
        return places
