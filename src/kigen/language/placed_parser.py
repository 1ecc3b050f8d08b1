"""Extends sqlglot's parser of DuckDB's grammar: records the place of every expression and words the errors.

Invariant: an expression node that the parser returned from any precedence level has `meta["span"]`. Parsing costs a
little more than sqlglot's own; app files are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token

from kigen.language.app_text import Span

_N = TypeVar("_N")


class CqlSyntaxError(ParseError):
    """An error inside the parser, which `parse` turns into a CqlError. It is a ParseError, so that sqlglot's own
    attempts can still fail silently."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message, errors=[{}])  # sqlglot writes into the first entry
        self.message, self.span, self.hint = message, span, hint


class PlacedParser(DuckDBParser):
    """DuckDB's grammar, with a place for every expression and with errors in CQL's words."""

    def start(self, tokens: list[Token], sql: str) -> None:
        self.reset()
        self.sql = sql
        self._chunks = [tokens]
        self._advance_chunk()

    # --- errors ---------------------------------------------------------------------------------------------------

    def here(self) -> Span:
        """Returns the span of the current token, or the place just after the last one."""
        if self._curr:
            return self._curr.start, self._curr.end + 1
        end = self._prev.end + 1 if self._prev else 0
        return end, end + 1

    def found(self) -> str:
        return f"'{self.sql[self._curr.start : self._curr.end + 1]}'" if self._curr else "the end of the statement"

    def fail(self, message: str, span: Span | None = None, hint: str | None = None) -> CqlSyntaxError:
        return CqlSyntaxError(message, span or self.here(), hint)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        span = (token.start, token.end + 1) if token else self.here()
        if message.startswith("Expecting "):
            wanted = message.removeprefix("Expecting ")
            raise self.fail(
                f"expected {wanted}, found {self.found()}",
                span,
                f"write {wanted} before it, or look for something that was opened but not closed",
            )
        if message.startswith("Expected table name"):
            raise self.fail(
                f"expected the name of a stream or query, found {self.found()}", span, "write FROM stream [window]"
            )
        raise self.fail(
            f"syntax error at {self.found()}", span, "something is missing before it, or it does not belong there"
        )

    # --- places ---------------------------------------------------------------------------------------------------

    def _placed(self, parse: Callable[[], _N]) -> _N:
        first = self._curr
        node = parse()
        if first and isinstance(node, exp.Expr) and self._prev and self._prev.end >= first.start:
            node.meta.setdefault("span", (first.start, self._prev.end + 1))
        return node

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._placed(super()._parse_disjunction)

    def _parse_conjunction(self) -> exp.Expr | None:
        return self._placed(super()._parse_conjunction)

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        return self._placed(lambda: super(PlacedParser, self)._parse_equality(parse_is))

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        parse = super()._parse_comparison
        return parse(this) if this else self._placed(parse)

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        parse = super()._parse_range
        return parse(this, parse_is) if this else self._placed(lambda: parse(None, parse_is))

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._placed(super()._parse_bitwise)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._placed(lambda: super(PlacedParser, self)._parse_term(parse_mod))

    def _parse_unary(self) -> exp.Expr | None:
        return self._placed(super()._parse_unary)

    def _parse_function(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._placed(lambda: super(PlacedParser, self)._parse_function(*args, **kwargs))

    def _parse_expression(self) -> exp.Expr | None:
        return self._placed(super()._parse_expression)

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._placed(lambda: super(PlacedParser, self)._parse_select(*args, **kwargs))

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        return self._placed(lambda: super(PlacedParser, self)._parse_join(*args, **kwargs))

    def _parse_query_modifiers(self, this: Any) -> Any:
        first = self._curr
        node = super()._parse_query_modifiers(this)
        if first and isinstance(node, exp.Expr):
            node.meta.setdefault("modifiers", (first.start, self._prev.end + 1))
        return node
