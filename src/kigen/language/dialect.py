"""CQL's dialect: DuckDB's as sqlglot has it, plus windows after a table name, plus the place of every expression.

Invariant: an expression node that the parser returned from any precedence level has `meta["span"]`, and a windowed
table has `meta["window"]`. Parsing costs a little more than sqlglot's own; app files are small.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from kigen.language.declarations import Name, WindowDecl
from kigen.language.source import Span

UNITS_US: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}
WINDOW_HINT = (
    "write [RANGE n SECONDS], [RANGE n SECONDS SLIDE m SECONDS], [ROWS n], [PARTITION BY c ROWS n], [NOW] "
    "or [UNBOUNDED]"
)

_N = TypeVar("_N")


class CqlSyntaxError(ParseError):
    """Raised inside the parser; `parse` turns it into a CqlError. A ParseError, so that sqlglot's attempts can still
    fail silently."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message, errors=[{}])  # sqlglot writes into the first
        self.message, self.span, self.hint = message, span, hint


LARGEST_COUNT = 10**15  # rows of a window
LONGEST_US = 3_000 * 365 * 86_400 * 10**6  # of a window: times stay within four-digit years


class CqlBaseParser(DuckDBParser):
    """DuckDB's grammar with windows and places; the statements of an app file are in `statements`."""

    def start(self, tokens: list[Token], sql: str) -> None:
        self.reset()
        self.sql = sql
        self._chunks = [tokens]
        self._advance_chunk()

    # --- errors ---------------------------------------------------------------------------------------------------

    def here(self) -> Span:
        """The current token, or the place just after the last one."""
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
                f"write {wanted} before it, or look for what was opened and not closed",
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
        return self._placed(lambda: super(CqlBaseParser, self)._parse_equality(parse_is))

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        parse = super()._parse_comparison
        return parse(this) if this else self._placed(parse)

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        parse = super()._parse_range
        return parse(this, parse_is) if this else self._placed(lambda: parse(None, parse_is))

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._placed(super()._parse_bitwise)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._placed(lambda: super(CqlBaseParser, self)._parse_term(parse_mod))

    def _parse_unary(self) -> exp.Expr | None:
        return self._placed(super()._parse_unary)

    def _parse_function(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._placed(lambda: super(CqlBaseParser, self)._parse_function(*args, **kwargs))

    def _parse_expression(self) -> exp.Expr | None:
        return self._placed(super()._parse_expression)

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._placed(lambda: super(CqlBaseParser, self)._parse_select(*args, **kwargs))

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        return self._placed(lambda: super(CqlBaseParser, self)._parse_join(*args, **kwargs))

    def _parse_query_modifiers(self, this: Any) -> Any:
        first = self._curr
        node = super()._parse_query_modifiers(this)
        if first and isinstance(node, exp.Expr):
            node.meta.setdefault("modifiers", (first.start, self._prev.end + 1))
        return node

    # --- windows --------------------------------------------------------------------------------------------------

    def _parse_table_parts(
        self, schema: bool = False, is_db_reference: bool = False, wildcard: bool = False, fast: bool = False
    ) -> Any:
        table = super()._parse_table_parts(schema, is_db_reference, wildcard, fast)
        if table is not None and not fast and self._curr.token_type == TokenType.L_BRACKET:
            table.meta["window"] = self.window()
        return table

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        if self._curr.token_type == TokenType.L_BRACKET:
            raise self.fail(
                "a sub-query is a relation already and takes no window",
                hint="put the window behind the streams inside it",
            )
        return super()._parse_subquery(this, parse_alias)

    def window(self) -> WindowDecl:
        opening = self._curr.start
        self._advance()
        kind, size, slide, partition = self._curr.text.upper(), 0, None, list[Name]()
        if self._match_texts(("NOW", "UNBOUNDED")):
            pass
        elif self._match_text_seq("RANGE"):
            size = self.duration("a RANGE window", zero="write [NOW] for the tuples of one instant")
            if self._match_text_seq("SLIDE"):
                slide = self.duration("SLIDE", zero="leave SLIDE out for a window that moves with every tuple")
        elif self._match_text_seq("ROWS"):
            size = self.count("a ROWS window")
        elif self._match(TokenType.PARTITION_BY):
            kind, partition = "PARTITION", self.names("a column")
            if not self._match_text_seq("ROWS"):
                raise self.fail(f"expected ROWS n, found {self.found()}", hint="write [PARTITION BY c, ... ROWS n]")
            size = self.count("a PARTITION BY window")
        else:
            raise self.fail(f"expected a window, found {self.found()}", hint=WINDOW_HINT)
        if not self._match(TokenType.R_BRACKET):
            raise self.fail(f"expected ] at the end of the window, found {self.found()}", hint=WINDOW_HINT)
        return WindowDecl(kind, (opening, self._prev.end + 1), size, slide, tuple(partition))

    # --- numbers, durations, names --------------------------------------------------------------------------------

    def number(self, what: str) -> tuple[float, Span]:
        start = self.here()
        negative = self._match(TokenType.DASH)
        if not self._match(TokenType.NUMBER):
            raise self.fail(f"expected a number for {what}, found {self.found()}", hint="write a number such as 10")
        span = (start[0], self._prev.end + 1)
        if negative:
            raise self.fail(
                f"{what} must be positive, got {self.sql[span[0] : span[1]]}", span, f"write {self._prev.text}"
            )
        text = self._prev.text.replace("_", "")
        try:
            return (float(text) if any(c in text for c in ".eE") else int(text)), span
        except ValueError:
            raise self.fail(f"expected a number for {what}, found {text}", span, "write a number such as 10") from None

    def count(self, what: str) -> int:
        value, span = self.number(what)
        if value != int(value) or value < 1:
            raise self.fail(f"{what} needs a whole number of at least 1, got {value}", span, "write 1 or more")
        if value > LARGEST_COUNT:
            raise self.fail(
                f"{what} can be {LARGEST_COUNT:,} at most, got {value:,}", span, "write [UNBOUNDED] for all tuples"
            )
        return int(value)

    def duration(self, what: str, zero: str | None = None, may_be_zero: bool = False) -> int:
        """`n UNIT` in microseconds."""
        value, span = self.number(what)
        unit = self._curr.text.upper() if self._curr else ""
        if unit.removesuffix("S") not in UNITS_US:
            raise self.fail(
                f"{what} needs a unit, found {self.found()}",
                hint="write MICROSECONDS, MILLISECONDS, SECONDS, MINUTES or HOURS",
            )
        self._advance()
        us = value * UNITS_US[unit.removesuffix("S")]
        if us == 0 and not may_be_zero:
            raise self.fail(
                f"{what} must be longer than 0", (span[0], self._prev.end + 1), zero or "write 1 SECONDS or more"
            )
        if us != int(us):
            whole = (span[0], self._prev.end + 1)
            raise self.fail(
                f"{what} must be a whole number of microseconds, got {us}", whole, "write it in MICROSECONDS"
            )
        if us > LONGEST_US:
            raise self.fail(
                f"{what} can be 3,000 years at most", (span[0], self._prev.end + 1), "write [UNBOUNDED] for all tuples"
            )
        return int(us)

    def name(self, what: str) -> Name:
        span = self.here()
        token = self._curr
        if token and token.token_type in self.NAME_TOKENS:
            self._advance()
            return Name(token.text, span)
        raise self.fail(
            f"expected {what}, found {self.found()}",
            span,
            'write a name; one that is also a keyword goes in "double quotes"',
        )

    def names(self, what: str) -> list[Name]:
        found = [self.name(what)]
        while self._match(TokenType.COMMA):
            found.append(self.name(what))
        return found

    NAME_TOKENS: Collection[TokenType] = DuckDBParser.ID_VAR_TOKENS | {TokenType.IDENTIFIER, TokenType.VAR}


class Cql(DuckDB):
    """Registered with sqlglot under the name `cql`; the statements' parser is set in `statements`."""

    Parser = CqlBaseParser
