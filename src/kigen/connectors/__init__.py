from kigen.connectors.base import InputError, LiveSource, Position, Range, Rows, Source
from kigen.connectors.opening import SINKS, SOURCES, open_sink, open_source
from kigen.connectors.options import OptionError
from kigen.connectors.sinks import Sink

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
