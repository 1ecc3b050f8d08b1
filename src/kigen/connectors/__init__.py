"""Connects streams and results with the outside: one folder per connector, opened through the registry."""

from kigen.connectors.options import OptionError
from kigen.connectors.registry import SINKS, SOURCES, open_sink, open_source
from kigen.connectors.sink_base import Sink
from kigen.connectors.source_base import InputError, LiveSource, Position, Range, Rows, Source

__all__ = [
    "SINKS",
    "SOURCES",
    "InputError",
    "LiveSource",
    "OptionError",
    "Position",
    "Range",
    "Rows",
    "Sink",
    "Source",
    "open_sink",
    "open_source",
]
