"""Turns text into declarations. Cuts the file at semicolons and parses each statement by itself, so that one error does
not hide the next."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from kigen.language.app_text import Source
from kigen.language.declarations import AppDecl, ConnectorDecl
from kigen.language.dialect import Cql
from kigen.language.errors import CqlError
from kigen.language.expansion import Expansion, Value
from kigen.language.placed_parser import CqlSyntaxError
from kigen.language.statements import STATEMENTS, CqlParser


def parse_app(
    text: str, file: str = "<app>", directory: str = ".", params: Mapping[str, Value] | None = None
) -> AppDecl:
    """Returns all declarations and all syntax errors of an app file; never raises because of the text. Files that it
    includes are relative to `directory`; `params` are the values of its parameters."""
    expansion = Expansion(params or {})
    source = expansion.expand(text, file, directory)
    app = AppDecl(source, errors=expansion.errors)
    if app.errors:
        return app
    try:
        source.tokens = list(Cql().tokenize(source.text))
    except TokenError as error:
        app.errors.append(_token_error(source, error))
        return app
    for separator, group in groupby(source.tokens, key=lambda t: t.token_type == TokenType.SEMICOLON):
        if not separator:
            _statements(app, list(group))
    return app


def parse_describe(text: str, file: str = "<describe>") -> tuple[list[ConnectorDecl], Source, list[CqlError]]:
    """Returns the connectors of `DESCRIBE connector (...)` statements (the word may be left out), and all syntax
    errors."""
    source = Source(text, file)
    found: list[ConnectorDecl] = []
    try:
        source.tokens = list(Cql().tokenize(text))
    except TokenError as error:
        return [], source, [_token_error(source, error)]
    errors: list[CqlError] = []
    for separator, group in groupby(source.tokens, key=lambda t: t.token_type == TokenType.SEMICOLON):
        tokens = list(group)
        if separator:
            continue
        parser = CqlParser(dialect=Cql())
        parser.start(tokens, text)
        try:
            found.append(parser.described())
        except CqlSyntaxError as error:
            errors.append(source.error(error.span, error.message, error.hint))
    if not found and not errors:
        errors.append(source.error((0, 1), "nothing to describe", "write csv (path = 'data.csv')"))
    return found, source, errors


def _statements(app: AppDecl, tokens: list[Token]) -> None:
    """Parses the tokens between two semicolons: usually one statement, more if a semicolon was forgotten."""
    while tokens:
        parser = CqlParser(dialect=Cql())
        parser.start(tokens, app.source.text)
        try:
            statement = parser.declaration()
            if parser._curr and parser._curr.text.upper() != "CREATE":
                raise parser.fail(f"unexpected {parser.found()}", hint="a statement ends with ;")
            app.statements.append(statement)
            if not parser._curr:
                return
            end = parser._prev.end
            app.errors.append(
                app.source.error(
                    (end, end + 1), "expected ; at the end of the statement", "write ; before the next CREATE"
                )
            )
        except CqlSyntaxError as error:
            app.errors.append(app.source.error(error.span, error.message, error.hint))
        except (ParseError, RecursionError, AttributeError, TypeError, ValueError, IndexError) as error:
            # sqlglot's grammar is wider than CQL's and fails on some incomplete input; the place is where it stopped.
            app.errors.append(
                app.source.error(
                    parser.here(),
                    f"syntax error at {parser.found()} ({type(error).__name__})",
                    "look at the text just before it",
                )
            )
        tokens = _after_next_create(tokens, parser._index)


def _after_next_create(tokens: list[Token], index: int) -> list[Token]:
    for i in range(max(index, 1), len(tokens)):
        if tokens[i].text.upper() == "CREATE" and i + 1 < len(tokens) and tokens[i + 1].text.upper() in STATEMENTS:
            return tokens[i:]
    return []


def _token_error(source: Source, error: TokenError) -> CqlError:
    text = source.text
    for opening, name in (("'", "string"), ('"', "name"), ("/*", "comment")):
        place = _unclosed(text, opening)
        if place is not None:
            return source.error(
                (place, place + len(opening)),
                f"this {name} is never closed",
                f"write {'*/' if name == 'comment' else opening} at its end",
            )
    return source.error((0, 1), f"the file cannot be read as CQL: {error}")


def _unclosed(text: str, opening: str) -> int | None:
    """Finds where an unclosed quote or comment begins. Scans character by character, because the tokenizer gave up."""
    i = 0
    closers = {"'": "'", '"': '"', "/*": "*/", "--": "\n"}
    while i < len(text):
        opened = next((o for o in closers if text.startswith(o, i)), None)
        if opened is None:
            i += 1
            continue
        end = text.find(closers[opened], i + len(opened))
        if end < 0:
            return i if opened == opening else None
        i = end + len(closers[opened])
    return None
