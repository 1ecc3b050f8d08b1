"""Streams that senders push (HTTP, MQTT, Python): an ingest queue per stream, because such a sender cannot repeat."""

from kigen.connectors.pushed.decoding import CONTENT_TYPES, decode_batch, media_type
from kigen.connectors.pushed.errors import BatchTooLarge, IngestFull, KeyReused, PushRefused, UnknownContentType
from kigen.connectors.pushed.ingest_queue import IngestQueue, Pushed

__all__ = [
    "CONTENT_TYPES",
    "BatchTooLarge",
    "IngestFull",
    "IngestQueue",
    "KeyReused",
    "PushRefused",
    "Pushed",
    "UnknownContentType",
    "decode_batch",
    "media_type",
]
