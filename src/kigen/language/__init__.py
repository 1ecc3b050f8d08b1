"""Parses CQL: turns an app file into declarations, with errors that say where, what and what to write instead."""

from kigen.language.declarations import AppDecl, QueryDecl, StreamDecl
from kigen.language.errors import CqlError, CqlErrors
from kigen.language.parse import parse_app

__all__ = ["AppDecl", "CqlError", "CqlErrors", "QueryDecl", "StreamDecl", "parse_app"]
