"""The MQTT connector: a source that acknowledges a message when the ingest queue has it, and a sink with QoS 1."""
