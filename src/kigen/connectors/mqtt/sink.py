"""Writes `INTO mqtt (broker = ..., topic = ...)`: JSON messages with QoS 1.

Modes `append` and `changes` publish each row to the topic. `upsert` publishes the row of a key as a retained message
below the topic, one level per column of the key, so that whoever subscribes later learns what is true now; an empty
retained message says that no row has the key any more, and the broker forgets it.

Invariant: no row is lost. A row may be published again after a kill, since MQTT has no transactions. Each message
carries the run, the query and its number as user properties, so a reader drops what it has. In mode `upsert` a repeat
changes nothing once all of them have come. The position is the number of rows that the broker has acknowledged.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.json_messages import JsonMessages, message_keys
from kigen.connectors.mqtt.client import BrokerOptions
from kigen.connectors.mqtt.publisher import Publisher
from kigen.connectors.options import OptionError
from kigen.connectors.requests import SinkRequest
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError
from kigen.lifetimes.results.changes import DELETE
from kigen.plan.logical import columns_of

_PIECE = 10_000
_RESERVED = re.compile(r"[%/+#\x00-\x1f\x7f]")
_LONGEST_TOPIC = 65_535  # bytes


class MqttSink(Sink):
    commit_interval_us = 100_000  # messages are sent at once; a commit waits for the broker to acknowledge them

    def __init__(self, asked: SinkRequest) -> None:
        super().__init__(asked.schema, asked.is_stream, asked.changes)
        self._owner, self._query = asked.owner, asked.query
        self._options = BrokerOptions(asked.owner, asked.connector, asked.directory)
        if {"+", "#"} & set(self._options.topic):
            message = f"{asked.owner}: messages are published to one topic, and '{self._options.topic}' is a pattern"
            raise OptionError(f"{message}: leave out + and #", "topic")
        self._client_id = asked.connector.option("client_id")
        self._is_upsert = asked.mode == "upsert"
        self._key = columns_of(asked.schema, str(asked.connector.option("key", "")))
        self._json = JsonMessages(asked.schema, asked.is_stream, self.changes, bare=self._is_upsert)
        self._publisher: Publisher | None = None
        self._rows = 0

    def open(self, position: SinkPosition | None) -> None:
        """Connects. What was published after `position` cannot be taken back, and will be published again."""
        self._rows = 0 if position is None else int(position["rows"])
        self._publisher = Publisher(self._options, self._owner, str(self._client_id or ""))
        self._publisher.connect()

    def write(self, table: pa.Table) -> None:
        assert self._publisher is not None, "open first"
        for at in range(0, table.num_rows, _PIECE):
            piece = table.slice(at, _PIECE).combine_chunks()
            payloads = [text for texts in self._json.texts(piece) for text in texts.cast(pa.binary()).to_pylist()]
            topics = self._topics(piece)
            gone = pc.equal(piece["_op"], DELETE).to_pylist() if self._is_upsert else [False] * len(payloads)
            for topic, payload, is_gone in zip(topics, payloads, gone, strict=True):
                self._rows += 1
                about = [("run", self.run_name), ("query", self._query), ("sequence", str(self._rows))]
                self._publisher.publish(topic, b"" if is_gone else payload, self._is_upsert, about)

    def _topics(self, piece: pa.Table) -> list[str]:
        if not self._is_upsert:
            return [self._options.topic] * piece.num_rows
        levels = [message_keys([piece[f"c{i}"]]).to_pylist() for i in self._key]
        made = ["/".join([self._options.topic, *map(topic_level, key)]) for key in zip(*levels, strict=True)]
        for topic in made:
            if len(topic.encode()) > _LONGEST_TOPIC:
                raise InputError(f"{self._owner}: a key is too long for a topic: {topic[:80]}...")
        return made

    def commit(self) -> SinkPosition:
        assert self._publisher is not None, "open first"
        self._publisher.flush()
        return {"rows": self._rows}

    def interrupt(self) -> None:
        if self._publisher is not None:
            self._publisher.interrupt()

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None


def topic_level(value: str) -> str:
    """Returns a value of a key as one level of a topic: characters that topics reserve are written as %2F."""
    return _RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", value)
