"""`kigen describe`: proposes the CREATE STREAM for a file, a connector or the DESCRIBE statements of an app file."""

from __future__ import annotations

import os

from kigen.connectors.describe import describe
from kigen.language import CqlErrors
from kigen.language.parse import parse_describe
from kigen.plan.binder.connectors import bind_connector
from kigen.plan.connectors.registry import REGISTRY
from kigen.plan.logical import Connector


def proposals(what: str) -> str:
    """Returns the proposed statements. `what` is a data file, the path of an app file, or `[DESCRIBE] csv (...)`."""
    for spec in REGISTRY.all():
        if spec.suffixes and what.endswith(spec.suffixes):
            return describe(Connector(spec.name, (("path", what),)))
    text, file, directory = what, "<describe>", "."
    if os.path.isfile(what):
        with open(what, encoding="utf-8") as opened:
            text, file, directory = opened.read(), what, os.path.dirname(what) or "."
    declared, source, errors = parse_describe(text, file)
    if errors:
        raise CqlErrors(errors)
    return "\n".join(describe(bind_connector(source, one, ("value",)), directory) for one in declared)
