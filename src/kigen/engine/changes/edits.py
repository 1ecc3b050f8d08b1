"""Makes the text of a changed app from that of the app that runs: statements added to it, or queries taken out.

Invariant: errors in added statements have the lines and columns of the text that the caller gave, not of the whole app.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kigen.engine.errors import ArgumentError
from kigen.language import CqlErrors, parse_app
from kigen.language.app_text import Source
from kigen.language.editing import joined, statements_in, without_statements
from kigen.language.errors import suggest
from kigen.language.expansion import Value
from kigen.plan.logical import App

ADDED = "<added>"  # stands for the file name in errors of added statements
Read = Callable[[str, str], App]  # text and file name -> the app


def expanded(text: str, file: str, directory: str, params: Mapping[str, Value] | None) -> str:
    """Returns a text with included files and values of parameters. Raises CqlErrors."""
    found = parse_app(text, file, directory, params)
    if found.errors:
        raise CqlErrors(found.errors)
    return found.source.text


def with_statements(current: App, text: str, read: Read, file: str = ADDED) -> App:
    """Returns the app with more statements. Raises CqlErrors and ArgumentError."""
    added = statements_in(text)
    known = {one.name.lower(): one for one in statements_in(current.text)}
    source = Source(text, file)
    twice = [
        source.error(
            one.name_span,
            f"{known[one.name.lower()].name} is already declared",
            "give it another name, or change the whole app (kigen change)",
        )
        for one in added
        if one.name.lower() in known
    ]
    if twice:
        raise CqlErrors(twice)
    read(joined(text, current.text), file)  # finds errors, with the lines of the added text
    whole = read(joined(current.text, text), file)
    if not added:
        raise ArgumentError("there is no statement to add: write CREATE QUERY name AS SELECT ...;")
    return whole


def without_queries(current: App, names: Sequence[str], read: Read) -> App:
    """Returns the app without these queries. Raises ArgumentError."""
    queries = {one.name.lower(): one for one in statements_in(current.text) if one.kind == "QUERY"}
    for name in names:
        if name.lower() not in queries:
            known = [one.name for one in queries.values()]
            raise ArgumentError(f"there is no query '{name}': {suggest(name, known, 'queries here')}")
    left = without_statements(current.text, [queries[name.lower()] for name in dict.fromkeys(names)])
    if len(set(map(str.lower, names))) == len(queries):
        raise ArgumentError("an app needs at least one query: stop the run instead of dropping its last one")
    try:
        return read(left, "<app>")
    except CqlErrors as error:
        listed = ", ".join(names)
        raise ArgumentError(
            f"without {listed} the rest of the app has errors: drop what reads it, too\n{error.render()}"
        ) from error
