"""Describes the connector mqtt."""

from __future__ import annotations

from kigen.plan.connectors.option_kinds import FLAG, PATH, TEXT, one_of, text
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "mqtt",
    {
        "broker": text("an address in 'single quotes'", "'localhost:1883'"),
        "topic": text("a topic in 'single quotes'", "'rooms/+/temp'"),
        "client_id": TEXT,
        "username": TEXT,
        "password_env": TEXT,
        "password_file": PATH,
        "tls": FLAG,
        "ca_file": PATH,
    },
    "broker",
    receiver="kigen.connectors.mqtt.receiver:MqttReceiver",
    sink="kigen.connectors.mqtt.sink:MqttSink",
    source_options={
        "format": one_of("json", "raw"),
        "columns": text("places such as 'room = topic[1]'", "'room = topic[1]'"),
    },
    modes=("append", "changes", "upsert"),
    needs=(("topic",),),
    is_pushed=True,
    extra="mqtt",
)
