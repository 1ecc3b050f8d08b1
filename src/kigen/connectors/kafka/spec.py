"""Describes the connector kafka."""

from __future__ import annotations

from kigen.plan.connectors.option_kinds import DURATION, INSTANT, PATH, TEXT, OptionKind, matching, one_of, text
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "kafka",
    {
        "brokers": text("addresses in 'single quotes'", "'host:9092'"),
        "topic": text("a topic in 'single quotes'", "'cars'"),
        "security": one_of("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
        "sasl_mechanism": TEXT,
        "username": TEXT,
        "username_env": TEXT,
        "username_file": PATH,
        "password_env": TEXT,
        "password_file": PATH,
        "ssl_ca": PATH,
        "ssl_certificate": PATH,
        "ssl_key": PATH,
        "ssl_key_password_env": TEXT,
        "ssl_key_password_file": PATH,
        "config": text("settings such as 'fetch.min.bytes = 1'", "'fetch.min.bytes = 1'"),
    },
    "brokers",
    source="kigen.connectors.kafka.source:KafkaSource",
    sink="kigen.connectors.kafka.sink:KafkaSink",
    source_options={
        "format": one_of("json", "avro", "csv", "raw", "arrow"),
        "registry": OptionKind(
            "an address such as 'http://host:8081'", matching(r"https?://\S+"), "'http://host:8081'"
        ),
        "registry_username": TEXT,
        "registry_password_env": TEXT,
        "registry_password_file": PATH,
        "schema": PATH,
        "start": OptionKind(
            "'earliest', 'latest' or a time such as '2026-01-02T03:04:05Z'",
            lambda value: value in ("earliest", "latest") or INSTANT.accepts(value),
            "'earliest'",
        ),
        "columns": text("places such as 'k = key, p = partition'", "'k = key'"),
        "group": TEXT,
    },
    sink_options={"format": one_of("json", "arrow"), "commit": DURATION, "transactional_id": TEXT},
    modes=("append", "changes", "upsert"),
    needs=(("topic",),),
    table="kigen.connectors.kafka.changelog:open_table",
    is_table=True,
    table_options={"mode": one_of("upsert")},
    has_partitions=True,
    can_shed=False,
    extra="kafka",
)
