"""MQTT messages as rows: payloads as JSON and raw, levels of the topic as columns, bad messages."""

from __future__ import annotations

import pytest

from kigen.connectors import InputError, OptionError
from kigen.connectors.mqtt.messages import Delivered, Messages
from kigen.plan import bind
from kigen.plan.logical import SourceStream

NOW_US = 1_800_000_000_000_000


def stream_of(columns: str, options: str = "", clauses: str = "") -> SourceStream:
    declared = (
        f"CREATE STREAM m ({columns}) {clauses} FROM mqtt (broker = 'host:1883', topic = 'rooms/+/temp' {options});"
    )
    return bind(declared + "CREATE QUERY q AS SELECT * FROM m [NOW];").streams[0]


def rows(stream: SourceStream, *messages: tuple[str, str]) -> list[tuple[object, ...]]:
    table = Messages(stream).rows([Delivered(topic, text.encode()) for topic, text in messages], NOW_US).table
    return [tuple(row.values()) for row in table.to_pylist()]


def test_json_payloads() -> None:
    stream = stream_of("room STRING, temp DOUBLE")
    assert rows(stream, ("x", '{"room": "a", "temp": 1}'), ("x", '{\n  "room": "b"\n}')) == [("a", 1.0), ("b", None)]


def test_levels_of_the_topic_are_columns() -> None:
    stream = stream_of(
        "room STRING, floor BIGINT, temp DOUBLE, full STRING",
        ", columns = 'room = topic[1], floor = topic[2], FULL = topic'",
    )
    assert rows(stream, ("rooms/a/3", '{"temp": 20.5, "room": "other"}'), ("rooms/b", "{}")) == [
        ("a", 3, 20.5, "rooms/a/3"),
        ("b", None, None, "rooms/b"),
    ]


@pytest.mark.parametrize(
    ("kind", "payload", "wanted"),
    [("DOUBLE", "21.5", 21.5), ("BIGINT", "7", 7), ("STRING", 'a "b"\n', 'a "b"\n'), ("BOOLEAN", "TRUE", True)],
)
def test_a_raw_payload_fills_the_column_that_is_left(kind: str, payload: str, wanted: object) -> None:
    stream = stream_of(f"room STRING, v {kind}", ", format = 'raw', columns = 'room = topic[1]'")
    assert rows(stream, ("rooms/a/temp", payload)) == [("a", wanted)]


@pytest.mark.parametrize(
    ("options", "payload", "message"),
    [
        ("", "nonsense", "message:2: a JSON object required"),
        ("", "[1]", "message:2: a JSON object required"),
        ("", "", "message:2: a JSON object required"),
        ("", '{"v": "x"}', "message:2: field 'v': DOUBLE required"),
        (", format = 'raw', columns = 'room = topic[1]'", "x", "message:2: field 'v': DOUBLE required"),
    ],
)
def test_a_bad_message_is_named(options: str, payload: str, message: str) -> None:
    stream = stream_of("room STRING, v DOUBLE", options)
    good = "1" if "raw" in options else "{}"
    with pytest.raises(InputError, match=message):
        rows(stream, ("rooms/a", good), ("rooms/a", payload))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a STRING, b STRING", ", format = 'raw'", "fills exactly one column from the payload, but 2 are left"),
        ("a STRING", ", columns = 'a = level 1'", "columns must be such as 'room = topic"),
        ("a STRING", ", columns = 'b = topic[0]'", "columns names b, and the columns are a"),
    ],
)
def test_wrong_options_are_named(columns: str, options: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Messages(stream_of(columns, options))
