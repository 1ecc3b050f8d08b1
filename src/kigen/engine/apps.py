"""Reads, checks and explains apps. None of it needs Spark: `kigen check` and `kigen explain` call these functions.

An app comes as a file or as text, never both. Relative paths in an app start at the directory of its file; for text,
they start at `base`, or at the current directory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from kigen.engine.errors import AppNotFound, ArgumentError
from kigen.language import CqlError, CqlErrors, parse_app
from kigen.language.declarations import StreamDecl, TableDecl
from kigen.language.errors import suggest
from kigen.language.expansion import Value
from kigen.plan import bind, load_app
from kigen.plan.explain import explain as explain_plan
from kigen.plan.logical import App, Function

_DECLARED = re.compile(r'CREATE (?:STREAM|TABLE) "?(.*?)"? \(')  # as kigen.spark.dataframes writes it
TEXT_NAME = "<text>"  # stands for the file name in errors of an app that was given as text


def read_app(
    app: str | Path | App | None = None,
    *,
    text: str | None = None,
    base: str | Path | None = None,
    output: str | Path | None = None,
    params: Mapping[str, Value] | None = None,
    streams: str = "",
    functions: tuple[Function, ...] = (),
) -> App:
    """Returns the bound plan of an app file or of an app's text; a plan is returned as it is.

    `output` is the directory that results will be written to; it must not hold what the app reads. `streams` declares
    streams that the app may use without declaring them, and `functions` are those that it may call.
    Raises CqlErrors with all errors of the app, AppNotFound, or ArgumentError if not exactly one app is given.
    """
    if (app is None) == (text is None):
        given = "both" if app is not None else "neither"
        raise ArgumentError(f"exactly one of app (a file) and text= (the app itself) is required, got {given}")
    if text is not None:
        directory = Path.cwd() if base is None else Path(base).absolute()
        text = _with(text, streams)
        return bind(text, TEXT_NAME, str(directory), None if output is None else str(output), params, functions)
    if base is not None:
        raise ArgumentError("base= goes with text= only: paths in an app file start at the directory of the file")
    if isinstance(app, App):
        if params:
            raise ArgumentError("params= goes with an app file or text=: this app has been read already")
        return app
    if not isinstance(app, str | Path):
        raise ArgumentError(f"app must be the path of a file, got {type(app).__name__}; the app itself goes to text=")
    return _read_file(app, output, params, streams, functions)


def _with(text: str, streams: str) -> str:
    """Appends the declarations of streams that the text names, so that lines of the text keep their numbers. Those that
    were appended before are there already."""
    words = {word.lower() for word in re.findall(r"\w+", text)}
    found = ((line, _DECLARED.match(line)) for line in streams.splitlines())
    used = [line for line, name in found if (name is None or name[1].lower() in words) and line not in text]
    return text if not used else f"{text.rstrip().rstrip(';')};\n" + "\n".join(used)


def _read_file(
    app: str | Path,
    output: str | Path | None,
    params: Mapping[str, Value] | None,
    streams: str,
    functions: tuple[Function, ...],
) -> App:
    if "\n" in str(app):
        raise AppNotFound("an app file is required, found text of several lines: pass the app itself as text=")
    path = Path(app)
    if not path.is_file():
        what = "a directory" if path.is_dir() else "nothing there"
        raise AppNotFound(f"{path}: an app file is required, found {what}")
    try:
        if not streams and not functions:
            return load_app(app, output, params)
        text, directory = path.read_text(encoding="utf-8"), str(path.resolve().parent)
        out = None if output is None else str(output)
        return bind(_with(text, streams), str(app), directory, out, params, functions)
    except UnicodeDecodeError as error:
        raise AppNotFound(f"{path}: an app file in UTF-8 is required: {error}") from error


def check(
    app: str | Path | None = None,
    *,
    text: str | None = None,
    base: str | Path | None = None,
    output: str | Path | None = None,
    params: Mapping[str, Value] | None = None,
) -> list[CqlError]:
    """Returns all errors of an app or, if there are none, its warnings (`CqlWarning`); does not start Spark.

    Also warns of declared columns that the files of a stream do not have, as far as these files are there already.

    Args:
        app: Path of the app file.
        text: The app itself, instead of a file.
        base: Directory at which relative paths in `text` start. Default: the current directory.
        output: Also checks the files that `Engine.run(..., output=...)` would write.
        params: Values of the app's parameters (`$name`), by name.

    Raises:
        AppNotFound: There is no such file.
        ArgumentError: Both or neither of `app` and `text` were given.

    >>> app = '''
    ... CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
    ...   FROM csv (path = 'readings.csv');
    ... CREATE QUERY hot AS SELECT rom FROM readings [RANGE 10 SECONDS];
    ... '''
    >>> errors = kigen.check(text=app)
    >>> print(errors[0])
    <text>:4:28: unknown column rom
        4 | CREATE QUERY hot AS SELECT rom FROM readings [RANGE 10 SECONDS];
          |                            ^^^
      hint: did you mean room?
    >>> kigen.check(text=app.replace("SELECT rom", "SELECT room"))
    []
    """
    try:
        return with_lacking(read_app(app, text=text, base=base, output=output, params=params), app, params)
    except CqlErrors as found:
        return list(found.errors)


def with_lacking(app: App, file: str | Path | None, params: Mapping[str, Value] | None = None) -> list[CqlError]:
    """Returns the warnings of an app that was read from a file (None: from text), with those about its files."""
    from kigen.connectors.describe.lacking import lacking_columns  # imports Arrow, which nothing else here needs

    text = app.text if file is None else Path(file).read_text(encoding="utf-8")
    declared = parse_app(text, TEXT_NAME if file is None else str(file), app.directory, params)
    streams = {stream.name: stream for stream in app.streams}
    found: list[CqlError] = list(app.warnings)
    for statement in declared.statements:
        if isinstance(statement, StreamDecl | TableDecl) and statement.name.text in streams:
            spans = {column.name.text: column.name.span for column in statement.columns}
            for lack in lacking_columns(streams[statement.name.text], app.directory):
                hint = suggest(lack.column, lack.others, "other columns there")
                found.append(declared.source.warning(spans[lack.column], lack.message, hint))
    return sorted(found, key=lambda warning: (warning.line, warning.column))


def explain(
    app: str | Path | None = None,
    *,
    text: str | None = None,
    base: str | Path | None = None,
    format: Literal["text", "json", "mermaid"] = "text",
    params: Mapping[str, Value] | None = None,
) -> str:
    """Returns the plan of an app: its streams, its tasks with their deadlines, and the operators of each query.

    Args:
        app: Path of the app file.
        text: The app itself, instead of a file.
        base: Directory at which relative paths in `text` start. Default: the current directory.
        format: "text" for a tree, "json", or "mermaid" for a diagram.
        params: Values of the app's parameters (`$name`), by name.

    Raises:
        CqlErrors: The app has errors.
        AppNotFound: There is no such file.
        ArgumentError: Both or neither of `app` and `text` were given.

    >>> app = '''
    ... CREATE STREAM cars (id BIGINT, speed DOUBLE) FROM synthetic (rate = 500, seed = 7, duration = '60 s');
    ... CREATE QUERY fast DEADLINE 1 SECONDS AS SELECT id FROM cars [NOW] WHERE speed > 30;
    ... '''
    >>> print(kigen.explain(text=app))
    streams
      cars (id BIGINT, speed DOUBLE) from synthetic
    <BLANKLINE>
    task0: reads cars, deadline 1 s
      query fast (id BIGINT)  deadline 1 s
        project id
        └─ filter speed > 30
           └─ window now
              └─ stream cars
    <BLANKLINE>
    """
    return explain_plan(read_app(app, text=text, base=base, params=params), format)
