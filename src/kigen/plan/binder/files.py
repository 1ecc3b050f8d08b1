"""Refuses outputs that would overwrite an input or each other, with the place in the text that declares the output."""

from __future__ import annotations

import os

from kigen.language import CqlErrors, QueryDecl
from kigen.language.app_text import Span
from kigen.language.declarations import AppDecl, ConnectorDecl, FunctionDecl, TableDecl
from kigen.plan.logical import App, errors_name
from kigen.plan.paths import conflicts


def check_outputs(declared: AppDecl, app: App, file_name: str, output: str | None) -> None:
    """Raises CqlErrors with all conflicts."""
    places = _places(declared)
    found = conflicts(app, output, file_name if os.path.isfile(file_name) else None)
    if found:
        hint = "give it a path that nothing else uses"
        raise CqlErrors([declared.source.error(places.get(out.key, (0, 1)), wrong, hint) for out, wrong in found])


def _places(declared: AppDecl) -> dict[str, Span]:
    """Returns where the text declares each output, by its key."""
    places: dict[str, Span] = {}
    for statement in declared.statements:
        name = statement.name
        if isinstance(statement, TableDecl):
            places[f"stream {name.text}"] = name.span
        elif isinstance(statement, QueryDecl):
            places[f"output {name.text}"] = name.span
            places[f"query {name.text}"] = _path(statement.into) or name.span
            for kind in ("query", "output"):
                places[f"{kind} {errors_name(name.text)}"] = _path(statement.error_into) or name.span
        elif not isinstance(statement, FunctionDecl):
            shed = None if statement.shed is None else statement.shed.into
            for kind, into in (("shed", shed), ("errors", statement.error_into), ("late", statement.late_into)):
                places[f"{kind} {name.text}"] = _path(into) or name.span
    return places


def _path(connector: ConnectorDecl | None) -> Span | None:
    return (
        next((o.span for o in connector.options if o.key.text.lower() == "path"), None)
        if connector is not None
        else None
    )
