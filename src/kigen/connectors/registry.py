"""Opens connectors: turns `FROM name (...)` into a `Source` and `INTO name (...)` into a `Sink`.

What there is to open, `kigen.plan.connectors.registry` knows. A connector's module is imported when it is opened.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kigen.connectors.options import OptionError, check_names
from kigen.connectors.requests import ReadTable, Receiver, ReceiverRequest, SinkRequest, SourceRequest
from kigen.connectors.sink_base import Sink
from kigen.connectors.source_base import InputError, Source
from kigen.connectors.table.source import TableSource, read_all
from kigen.plan.connectors.registry import BrokenPlugin, connector_named, names_for
from kigen.plan.connectors.spec import ConnectorSpec, Opener, Place
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Schema


def open_source(
    stream: SourceStream, directory: str, draining: bool, start_us: int | None, checkpoint: str | None = None
) -> Source:
    """Returns the stream's connector; does no I/O yet. `start_us` is when the run began: the times of a live synthetic
    stream, and AHEAD of a file, count from it. `checkpoint` is where a source on the driver may keep records of its
    own."""
    place: Place = "table" if stream.table else "source"
    owner = f"{'table' if stream.table else 'stream'} '{stream.name}'"
    spec = _spec(owner, stream.source, place)
    columns = tuple(c.name for c in stream.schema) if spec.column_kind is not None else ()
    if not spec.takes_any_option:
        check_names(owner, stream.source, (*spec.options_in(place), *columns))
    if stream.table:
        read = _read_table(spec, SourceRequest(stream, directory, True, None, checkpoint))
        return TableSource(stream, read, checkpoint, ends=draining or not stream.changes)
    if spec.is_pushed:
        raise InputError(f"{owner} is pushed: a run reads it from its ingest queue, which only the run can open")
    made: Source = _opened(spec, spec.source, SourceRequest(stream, directory, draining, start_us, checkpoint), Source)
    return made


def _read_table(spec: ConnectorSpec, asked: SourceRequest) -> ReadTable | None:
    """Returns what reads a table as it is now; None if only the run can, since it has the session."""
    if spec.table is not None:
        made: ReadTable = _loaded(spec, spec.table)(asked)
        return made
    if spec.source is None:
        return None
    return lambda: (read_all(_opened(spec, spec.source, asked, Source), asked.stream), {})


def table_reader(stream: SourceStream, directory: str) -> Callable[[], pa.Table]:
    """Returns what reads a table, from files or a database, as it is now."""
    spec = _spec(f"table '{stream.name}'", stream.source, "table")
    read = _read_table(spec, SourceRequest(stream, directory, True, None, None))
    if read is None:
        raise InputError(f"table '{stream.name}' can be read only by the run")
    return lambda: read()[0]


def open_sink(connector: Connector, schema: Schema, is_stream: bool, directory: str, name: str) -> Sink:
    """Returns the sink for the results of query `name`; does no I/O before `Sink.open`."""
    owner = f"query '{name}'"
    spec = _spec(owner, connector, "sink")
    if not spec.takes_any_option:
        check_names(owner, connector, tuple(spec.options_in("sink")))
    made: Sink = _opened(spec, spec.sink, SinkRequest(connector, schema, is_stream, directory, name), Sink)
    return made


def open_receiver(asked: ReceiverRequest) -> Receiver | None:
    """Returns what receives a pushed stream; None if its senders call Kigen themselves. Does not connect."""
    spec = _spec(f"stream '{asked.stream.name}'", asked.stream.source, "source")
    return None if spec.receiver is None else _opened(spec, spec.receiver, asked, Receiver)


def _spec(owner: str, connector: Connector, place: Place) -> ConnectorSpec:
    try:
        spec = connector_named(connector.name)
    except BrokenPlugin as error:
        raise OptionError(f"{owner}: {error}") from error
    if spec is not None and spec.fits(place):
        return spec
    known = names_for(place)
    near = difflib.get_close_matches(connector.name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
    raise OptionError(f"{owner}: no connector '{connector.name}'; {hint}")


def _opened(spec: ConnectorSpec, opener: Opener | None, asked: Any, kind: type[Any]) -> Any:
    made = _loaded(spec, opener)(asked)
    if not isinstance(made, kind):
        raise OptionError(f"{spec.owner}: {opener} must give a {kind.__name__}, found {type(made).__name__}")
    return made


def _loaded(spec: ConnectorSpec, opener: Opener | None) -> Any:
    """Imports what a description names."""
    if not isinstance(opener, str):
        return opener
    module, _, name = opener.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if spec.extra is None or spec.package is not None:
            raise OptionError(f"{spec.owner} cannot be opened: {error}") from error
        message = f"{spec.owner} needs the package {error.name}, which is not installed: pip install "
        raise OptionError(f"{message}'kigen[{spec.extra}]'") from error
    except Exception as error:  # whatever a stranger's module raises while it is imported
        if spec.package is None:
            raise
        raise OptionError(f"{spec.owner} cannot be opened: {type(error).__name__}: {error}") from error
