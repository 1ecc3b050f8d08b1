"""Parses the statements of an app file: CREATE STREAM, TABLE, FUNCTION, VIEW and QUERY.

Invariant: a clause appears at most once, and clauses may come in any order. Every error is a CqlSyntaxError at the
exact token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from kigen.language.declarations import (
    TYPES_HINT,
    ColumnDecl,
    ConnectorDecl,
    FunctionDecl,
    Name,
    OptionDecl,
    OptionValue,
    QueryDecl,
    ShedDecl,
    StreamDecl,
    StreamOpDecl,
    TableDecl,
)
from kigen.language.dialect import CqlBaseParser
from kigen.language.errors import near

STATEMENTS = ("STREAM", "TABLE", "FUNCTION", "VIEW", "QUERY")  # what CREATE may create
STREAM_CLAUSES = ("TIMESTAMP BY", "FROM", "LATENESS", "IDLE", "AHEAD", "ON ERROR", "LATE INTO", "SHED ABOVE", "BUFFER")
TABLE_CLAUSES = ("FROM", "KEY", "REFRESH EVERY")
QUERY_CLAUSES = ("DEADLINE", "COST", "ON ERROR", "AS")


class CqlParser(CqlBaseParser):
    def declaration(self) -> StreamDecl | TableDecl | FunctionDecl | QueryDecl:
        """Parses one statement and leaves the parser after it."""
        if self._match_text_seq("CREATE"):
            if self._match_text_seq("STREAM"):
                return self._stream()
            if self._match_text_seq("TABLE"):
                return self._table()
            if self._match_text_seq("QUERY"):
                return self._query()
            if self._match_text_seq("VIEW"):
                return self._view()
            if self._match_text_seq("FUNCTION"):
                return self._function()
        raise self.fail(
            f"expected CREATE STREAM, TABLE, FUNCTION, VIEW or QUERY, found {self.found()}", hint=self._statement_hint()
        )

    def described(self) -> ConnectorDecl:
        """Parses `DESCRIBE connector (...)` to its end."""
        self._match_text_seq("DESCRIBE")
        connector = self._connector()
        if self._curr:
            raise self.fail(f"unexpected {self.found()}", hint="a statement ends with ;")
        return connector

    def _statement_hint(self) -> str:
        if self._curr and self._curr.text.upper() == "DESCRIBE":
            return "run it with: kigen describe FILE. It proposes the CREATE STREAM to write here"
        if self._curr and self._curr.text.upper() in ("SELECT", "ISTREAM", "DSTREAM", "RSTREAM", "WITH", "FROM"):
            return "write CREATE QUERY name AS before the query"
        return "write CREATE STREAM name (column TYPE, ...) ...; or CREATE QUERY name AS ...;"

    # --- CREATE STREAM --------------------------------------------------------------------------------------------

    def _stream(self) -> StreamDecl:
        name = self.name("the name of the stream")
        columns = self._columns("the columns of the stream, as in (id BIGINT, ts TIMESTAMP)")
        parsers: dict[str, tuple[str, Callable[[], Any]]] = {
            "TIMESTAMP BY": ("timestamp", lambda: self.name("the timestamp column")),
            "FROM": ("source", self._connector),
            "LATENESS": ("lateness_us", lambda: self.duration("LATENESS", may_be_zero=True)),
            "IDLE": ("idle_us", lambda: self.duration("IDLE", zero="leave IDLE out to wait for silent partitions")),
            "AHEAD": ("ahead_us", lambda: self.duration("AHEAD", may_be_zero=True)),
            "ON ERROR": ("on_error", self._on_error),
            "LATE INTO": ("late_into", self._connector),
            "SHED ABOVE": ("shed", self._shed),
            "BUFFER": ("buffer", lambda: self.count("BUFFER")),
        }
        clauses = self._clauses(parsers, STREAM_CLAUSES)
        skips, into = clauses.pop("on_error", (False, None))
        return StreamDecl(name, columns, on_error_skip=skips, error_into=into, **clauses)

    def _columns(self, what: str) -> tuple[ColumnDecl, ...]:
        self._open(what)
        columns = [self._column()]
        while self._match(TokenType.COMMA):
            columns.append(self._column())
        self._close("column TYPE")
        return tuple(columns)

    def _column(self) -> ColumnDecl:
        name = self.name("a column name")
        if not self._curr or self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            raise self.fail(f"column {name.text} needs a type", hint=TYPES_HINT)
        return ColumnDecl(name, self._named_type())

    def _named_type(self) -> Name:
        start = self.here()[0]
        self._type()
        span = (start, self._prev.end + 1)
        return Name(self.sql[span[0] : span[1]], span)

    def _type(self) -> None:
        """Passes over a type: a name, perhaps with arguments in parentheses, and `[]` for each list around it."""
        self._advance()
        if self._match(TokenType.L_PAREN, advance=False):
            depth = 0
            while self._curr:
                depth += (self._curr.token_type == TokenType.L_PAREN) - (self._curr.token_type == TokenType.R_PAREN)
                self._advance()
                if not depth:
                    break
            else:
                raise self.fail("a type ends with the statement", hint="write ) after its last part")
        while self._match(TokenType.L_BRACKET):
            if not self._match(TokenType.R_BRACKET):
                raise self.fail(f"expected ], found {self.found()}", hint="write BIGINT[] for a list")

    def _on_error(self) -> tuple[bool, ConnectorDecl | None]:
        """Returns whether bad rows are skipped, and where they go."""
        if self._match_text_seq("SKIP"):
            return True, None
        if self._match_text_seq("FAIL"):
            return False, None
        if self._match(TokenType.INTO):
            return True, self._connector()
        hint = "write ON ERROR FAIL, ON ERROR SKIP or ON ERROR INTO csv (path = '...')"
        raise self.fail(f"expected FAIL, SKIP or INTO, found {self.found()}", hint=hint)

    def _shed(self) -> ShedDecl:
        above, span = self.number("SHED ABOVE")
        if above <= 0:
            raise self.fail("SHED ABOVE must be greater than 0", span, "write SHED ABOVE 100 PER SECOND")
        if not self._match_text_seq("PER", "SECOND"):
            raise self.fail(
                f"expected PER SECOND, found {self.found()}", hint="write SHED ABOVE n PER SECOND [BY expression]"
            )
        by = None
        if self._match_text_seq("BY"):
            by = self._parse_disjunction()
            if by is None:
                raise self.fail(
                    f"expected an expression after BY, found {self.found()}", hint="write BY column, or leave BY out"
                )
        into = self._connector() if self._match(TokenType.INTO) else None
        return ShedDecl(float(above), by, into)

    # --- CREATE TABLE ---------------------------------------------------------------------------------------------

    def _table(self) -> TableDecl:
        name = self.name("the name of the table")
        columns = self._columns("the columns of the table, as in (room STRING, floor BIGINT)")
        parsers: dict[str, tuple[str, Callable[[], Any]]] = {
            "FROM": ("source", self._connector),
            "KEY": ("key", self._key),
            "REFRESH EVERY": (
                "refresh_us",
                lambda: self.duration("REFRESH EVERY", zero="leave REFRESH out to read the table once"),
            ),
        }
        return TableDecl(name, columns, **self._clauses(parsers, TABLE_CLAUSES))

    def _key(self) -> tuple[Name, ...]:
        self._open("the columns of the key, as in KEY (room)")
        names = self.names("a column")
        self._close("the columns of the key")
        return tuple(names)

    # --- CREATE FUNCTION ------------------------------------------------------------------------------------------

    def _function(self) -> FunctionDecl:
        name = self.name("the name of the function")
        parameters = self._columns("the parameters of the function, as in (x DOUBLE)")
        hint = f"write CREATE FUNCTION {name.text}(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'module:function'"
        if not self._match_text_seq("RETURNS"):
            raise self.fail(f"expected RETURNS and a type, found {self.found()}", hint=hint)
        returns = self._named_type()
        if not (self._match_text_seq("LANGUAGE") and self._match_text_seq("PYTHON")):
            raise self.fail(f"expected LANGUAGE PYTHON, found {self.found()}", hint=hint)
        if not self._match_text_seq("AS") or not self._curr or self._curr.token_type != TokenType.STRING:
            raise self.fail(f"expected AS 'module:function', found {self.found()}", hint=hint)
        target = Name(self._curr.text, self.here())
        self._advance()
        return FunctionDecl(name, parameters, returns, target)

    # --- CREATE QUERY ---------------------------------------------------------------------------------------------

    def _query(self) -> QueryDecl:
        name = self.name("the name of the query")
        parsers: dict[str, tuple[str, Callable[[], Any]]] = {
            "DEADLINE": ("deadline", self._deadline),
            "COST": ("cost_us", self._cost),
            "ON ERROR": ("on_error", self._on_error),
        }
        clauses = self._clauses(parsers, QUERY_CLAUSES, end="AS")
        deadline_us, firm = clauses.pop("deadline", (None, False))
        stream_op, body = self._body("write CREATE QUERY name [DEADLINE d] AS SELECT ...")
        into = self._connector() if self._match(TokenType.INTO) else None
        span = self.here()
        if self._match_text_seq("ON", "ERROR"):  # also after INTO, as streams have it
            if "on_error" in clauses:
                raise self.fail("ON ERROR is given twice", span, "keep one of them")
            clauses["on_error"] = self._on_error()
        skips, error_into = clauses.get("on_error", (False, None))
        return QueryDecl(
            name,
            body,
            deadline_us,
            firm,
            clauses.get("cost_us"),
            stream_op,
            into,
            on_error_skip=skips,
            error_into=error_into,
        )

    def _view(self) -> QueryDecl:
        name = self.name("the name of the view")
        stream_op, body = self._body("write CREATE VIEW name AS SELECT ...; deadlines and sinks belong to queries")
        if self._curr and self._curr.token_type == TokenType.INTO:
            raise self.fail("a view has no results of its own", hint="write CREATE QUERY, or leave INTO out")
        return QueryDecl(name, body, stream_op=stream_op, view=True)

    def _body(self, hint: str) -> tuple[StreamOpDecl | None, exp.Expr]:
        """Parses AS and the query after it."""
        if not self._match_text_seq("AS"):
            raise self.fail(f"expected AS and the query, found {self.found()}", hint=hint)
        stream_op = self._stream_op()
        if stream_op is not None:
            self._open(f"the query of {stream_op.kind}")
        body = self._parse_ddl_select()
        if body is None:
            raise self.fail(f"expected a query, found {self.found()}", hint="write SELECT ... FROM stream [window] ...")
        if stream_op is not None:
            self._close("a query", f"expected ) at the end of {stream_op.kind}")
        return stream_op, body

    def _deadline(self) -> tuple[int, bool]:
        deadline_us = self.duration("DEADLINE", zero="leave DEADLINE out if the query has no deadline")
        return deadline_us, self._match_text_seq("FIRM")

    def _cost(self) -> int:
        value, span = self.number("COST")
        if value != int(value):
            raise self.fail("COST needs whole microseconds", span, "write COST 10 MICROSECONDS")
        if not (self._match_text_seq("MICROSECONDS") or self._match_text_seq("MICROSECOND")):
            raise self.fail(f"expected MICROSECONDS, found {self.found()}", hint="write COST n MICROSECONDS")
        return int(value)

    def _stream_op(self) -> StreamOpDecl | None:
        span = self.here()
        if not self._match_texts(("ISTREAM", "DSTREAM", "RSTREAM")):
            return None
        kind, every_us = self._prev.text.upper(), None
        if self._curr.token_type == TokenType.L_BRACKET:
            if kind != "RSTREAM":
                raise self.fail(f"{kind} takes no period", hint="only RSTREAM[n SECONDS](...) does")
            self._advance()
            every_us = self.duration("the period of RSTREAM")
            if not self._match(TokenType.R_BRACKET):
                raise self.fail(f"expected ], found {self.found()}", hint="write RSTREAM[n SECONDS](...)")
        return StreamOpDecl(kind, span, every_us)

    # --- shared ---------------------------------------------------------------------------------------------------

    def _clauses(
        self, parsers: dict[str, tuple[str, Callable[[], Any]]], known: tuple[str, ...], end: str | None = None
    ) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while self._curr and self._curr.text.upper() not in ("CREATE", end):
            span = self.here()
            clause = next((c for c in parsers if self._match_text_seq(*c.split())), None)
            if clause is None:
                if end == "AS" and self._curr.text.upper() in ("SELECT", "ISTREAM", "DSTREAM", "RSTREAM"):
                    raise self.fail(
                        f"expected AS and the query, found {self.found()}", span, f"write AS before {self._curr.text}"
                    )
                best = near(self._curr.text, known)
                hint = f"did you mean {best}?" if best else f"clauses here: {', '.join(known)}"
                raise self.fail(f"unknown clause {self.found()}", span, hint)
            field, parse = parsers[clause]
            if field in values:
                raise self.fail(f"{clause} is given twice", (span[0], self._prev.end + 1), "keep one of them")
            values[field] = parse()
        return values

    def _connector(self) -> ConnectorDecl:
        name = self.name("the name of a connector")
        options: list[OptionDecl] = []
        if self._match(TokenType.L_PAREN) and not self._match(TokenType.R_PAREN):
            options.append(self._option())
            while self._match(TokenType.COMMA):
                options.append(self._option())
            self._close("key = value")
        return ConnectorDecl(name, tuple(options))

    def _option(self) -> OptionDecl:
        if not self._curr or self._curr.token_type in (
            TokenType.STRING,
            TokenType.NUMBER,
            TokenType.R_PAREN,
            TokenType.EQ,
        ):
            raise self.fail(f"expected an option, found {self.found()}", hint="write key = value")
        key = Name(self._curr.text, self.here())
        self._advance()
        if not self._match(TokenType.EQ):
            raise self.fail(f"expected = after option {key.text}, found {self.found()}", hint="write key = value")
        span = self.here()
        value = self._option_value(key.text)
        return OptionDecl(key, value, (span[0], self._prev.end + 1))

    def _option_value(self, key: str) -> OptionValue:
        if self._match(TokenType.STRING):
            return str(self._prev.text)
        if self._match_text_seq("TRUE"):
            return True
        if self._match_text_seq("FALSE"):
            return False
        sign = -1 if self._match(TokenType.DASH) else 1
        if self._curr.token_type == TokenType.NUMBER:
            value, _ = self.number(key)
            return sign * value
        raise self.fail(
            f"option {key} needs a string, a number, TRUE or FALSE, found {self.found()}",
            hint="put strings in 'single quotes'",
        )

    def _open(self, what: str) -> None:
        if not self._match(TokenType.L_PAREN):
            raise self.fail(f"expected ( and {what}, found {self.found()}", hint="write ( before it")

    def _close(self, what: str, message: str = "expected , or )") -> None:
        if not self._match(TokenType.R_PAREN):
            raise self.fail(
                f"{message} after {what}, found {self.found()}", hint="write ) before it, or look for what is missing"
            )
