"""Connects streams and results with the outside: one folder per connector, opened through the registry.

Those who write connectors import everything from here. Names are loaded on first use: `kigen check` imports the
descriptions of connectors, which must not cost more than they say.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kigen.connectors.bad_rows import BadRows
    from kigen.connectors.options import OptionError
    from kigen.connectors.registry import open_receiver, open_sink, open_source
    from kigen.connectors.requests import Receiver, ReceiverRequest, SinkRequest, SourceRequest
    from kigen.connectors.sink_base import Sink, SinkPosition
    from kigen.connectors.source_base import BadRow, InputError, LiveSource, Position, Range, Rows, Source
    from kigen.plan.connectors import option_kinds
    from kigen.plan.connectors.option_kinds import OptionKind
    from kigen.plan.connectors.spec import ConnectorSpec
    from kigen.plan.types import Type

__all__ = [
    "BadRow",
    "BadRows",
    "ConnectorSpec",
    "InputError",
    "LiveSource",
    "OptionError",
    "OptionKind",
    "Position",
    "Range",
    "Receiver",
    "ReceiverRequest",
    "Rows",
    "Sink",
    "SinkPosition",
    "SinkRequest",
    "Source",
    "SourceRequest",
    "Type",
    "open_receiver",
    "open_sink",
    "open_source",
    "option_kinds",
]
_MODULES = {
    "BadRow": "connectors.source_base",
    "BadRows": "connectors.bad_rows",
    "ConnectorSpec": "plan.connectors.spec",
    "InputError": "connectors.source_base",
    "LiveSource": "connectors.source_base",
    "OptionError": "connectors.options",
    "OptionKind": "plan.connectors.option_kinds",
    "Position": "connectors.source_base",
    "Range": "connectors.source_base",
    "Receiver": "connectors.requests",
    "ReceiverRequest": "connectors.requests",
    "Rows": "connectors.source_base",
    "Sink": "connectors.sink_base",
    "SinkPosition": "connectors.sink_base",
    "SinkRequest": "connectors.requests",
    "Source": "connectors.source_base",
    "SourceRequest": "connectors.requests",
    "Type": "plan.types",
    "open_receiver": "connectors.registry",
    "open_sink": "connectors.registry",
    "open_source": "connectors.registry",
}


def __getattr__(name: str) -> Any:
    if name == "option_kinds":
        return import_module("kigen.plan.connectors.option_kinds")
    if name not in _MODULES:
        raise AttributeError(f"module 'kigen.connectors' has no attribute '{name}'")
    return getattr(import_module(f"kigen.{_MODULES[name]}"), name)
