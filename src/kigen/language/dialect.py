"""Defines CQL's dialect: DuckDB's grammar as sqlglot parses it, plus windows after a table name.

Invariant: a windowed table has `meta["window"]`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType

from kigen.language.app_text import Span
from kigen.language.declarations import Name, WindowDecl
from kigen.language.placed_parser import PlacedParser

UNITS_US: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}
WINDOW_HINT = (
    "write [RANGE n SECONDS], [RANGE n SECONDS SLIDE m SECONDS], [ROWS n], [PARTITION BY c ROWS n], "
    "[SESSION n SECONDS], [UNTIL column], [NOW] or [UNBOUNDED]"
)
LARGEST_COUNT = 10**15  # rows in a window
LONGEST_US = 3_000 * 365 * 86_400 * 10**6  # length of a window: times stay within four-digit years


class CqlBaseParser(PlacedParser):
    """Parses windows, numbers, durations and names; the statements of an app file are in `statements`."""

    # CQL has no lambdas: `x -> y` is a path into JSON, also as an argument of a function.
    LAMBDAS: ClassVar = {kind: parse for kind, parse in DuckDBParser.LAMBDAS.items() if kind != TokenType.ARROW}

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
                "a subquery is already a relation and takes no window",
                hint="put the window after the streams inside it",
            )
        return super()._parse_subquery(this, parse_alias)

    def window(self) -> WindowDecl:
        opening = self._curr.start
        self._advance()
        kind, size, slide, partition = "", 0, None, list[Name]()
        if self._match(TokenType.PARTITION_BY):
            partition = self.names("a column")
        word = self._curr.text.upper()
        if not partition and self._match_texts(("NOW", "UNBOUNDED")):
            kind = word
        elif not partition and self._match_text_seq("UNTIL"):
            kind, partition = word, [self.name("a TIMESTAMP column")]
        elif self._match_text_seq("RANGE"):
            kind = word
            size = self.duration("a RANGE window", zero="write [NOW] for the tuples of one instant")
            if self._match_text_seq("SLIDE"):
                slide = self.duration("SLIDE", zero="leave SLIDE out for a window that moves with every tuple")
        elif self._match_text_seq("SESSION"):
            kind, size = word, self.duration("a SESSION window")
        elif self._match_text_seq("ROWS"):
            kind, size = ("PARTITION" if partition else word), self.count(f"a {self._rows_window(partition)} window")
        elif partition:
            hint = "write [PARTITION BY c, ... ROWS n], or SESSION n SECONDS in place of ROWS n"
            raise self.fail(f"expected ROWS n, found {self.found()}", hint=hint)
        else:
            raise self.fail(f"expected a window, found {self.found()}", hint=WINDOW_HINT)
        if not self._match(TokenType.R_BRACKET):
            raise self.fail(f"expected ] at the end of the window, found {self.found()}", hint=WINDOW_HINT)
        return WindowDecl(kind, (opening, self._prev.end + 1), size, slide, tuple(partition))

    @staticmethod
    def _rows_window(partition: list[Name]) -> str:
        return "PARTITION BY" if partition else "ROWS"

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
                f"{what} can be at most {LARGEST_COUNT:,}, got {value:,}", span, "write [UNBOUNDED] for all tuples"
            )
        return int(value)

    def duration(self, what: str, zero: str | None = None, may_be_zero: bool = False) -> int:
        """Parses `n UNIT` and returns microseconds."""
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
                f"{what} can be at most 3,000 years", (span[0], self._prev.end + 1), "write [UNBOUNDED] for all tuples"
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
            'write a name; put a name that is also a keyword in "double quotes"',
        )

    def names(self, what: str) -> list[Name]:
        found = [self.name(what)]
        while self._match(TokenType.COMMA):
            found.append(self.name(what))
        return found

    NAME_TOKENS: Collection[TokenType] = DuckDBParser.ID_VAR_TOKENS | {TokenType.IDENTIFIER, TokenType.VAR}


class Cql(DuckDB):
    """The dialect `cql` of sqlglot. The parser of statements is in `statements`."""

    Parser = CqlBaseParser
