"""Turns a parsed expression into a term (names resolved), and a term into an `Expr` (typed by DuckDB).

Invariant: an expression that passes is scalar, deterministic and over the scope's columns. Errors point at the exact
token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from kigen.language.app_text import Source, Span, span_of
from kigen.language.declarations import TYPES_HINT
from kigen.language.errors import CqlError, CqlErrors, near
from kigen.plan.binder.expressions.allowed_functions import AGGREGATES as AGGREGATE_NAMES
from kigen.plan.binder.expressions.allowed_functions import ALLOWED, OPERATORS
from kigen.plan.binder.expressions.duckdb_types import DuckError, Types, column_type, describe, functions, held
from kigen.plan.binder.expressions.terms import Place, Ref, Sql, Term, position_of_call
from kigen.plan.binder.scope import Scope
from kigen.plan.logical import Expr, with_own_names
from kigen.plan.types import Type

AGGREGATES: tuple[type[exp.Expr], ...] = (
    exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance,
    exp.VariancePop, exp.LogicalAnd, exp.LogicalOr, exp.Median, exp.PercentileCont, exp.ArgMin, exp.ArgMax, exp.First,
    exp.Last, exp.GroupConcat, exp.ArrayAgg,
)  # fmt: skip
_WORDS = {
    **dict.fromkeys(("INTEGER_LITERAL", "INT64", "INT32"), "BIGINT"),
    **dict.fromkeys(("STRING_LITERAL", "VARCHAR"), "STRING"),
    "BOOL": "BOOLEAN",
}
_SET_RETURNING = {"unnest", "explode", "columns", "generate_subscripts", "regexp_split_to_table"}
_CLOCKS = {
    "now",
    "today",
    "transaction_timestamp",
    "current_timestamp",
    "current_date",
    "current_time",
    "localtime",
    "localtimestamp",
    "current_localtimestamp",
    "current_localtime",
}


def place_of(source: Source, node: exp.Expr) -> Span:
    """Returns the place of a node, as exactly as it is known."""
    found = span_of(node)
    if found is not None:
        return found
    inner = [s for s in (span_of(n) for n in node.walk()) if s is not None]
    if inner:
        return min(s[0] for s in inner), max(s[1] for s in inner)
    call: exp.Expr | None = node.find_ancestor(*AGGREGATES, exp.Lag, exp.Lead)
    while call is not None and span_of(call) is None:  # before FILTER or OVER, the call itself has no place
        call = call.parent
    around = span_of(call) if call is not None else None
    if call is not None and around is not None:  # NULL, TRUE ...: words without a place in the parser
        kind = exp.Null if isinstance(node, exp.Null) else exp.Boolean
        words = {"NULL"} if kind is exp.Null else {"TRUE", "FALSE"}
        inside = takewhile(lambda token: token.text.upper() != "OVER", source.tokens_in(around))
        tokens = [t for t in inside if t.text.upper() in words]
        alike = [found for found in call.dfs() if isinstance(found, kind)]
        if tokens:
            token = next((t for t, found in zip(tokens, alike, strict=False) if found is node), tokens[0])
            return token.start, token.end + 1
    return 0, 1


def resolve(
    scope: Scope, node: exp.Expr, aliases: Mapping[str, Term] | None = None, since: int = 0, clause: str = "SELECT"
) -> Term:
    """Resolves names to positions. `aliases` are select items, used by name where no column has that name."""
    check_scalar(scope.source, node, clause)
    refs: list[Ref] = []
    errors: list[CqlError] = []
    for column in node.find_all(exp.Column):
        try:
            refs.append(_ref(scope, column, aliases or {}, since))
        except CqlError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else CqlErrors(errors)
    if (
        isinstance(node, exp.Column)
        and isinstance(refs[0].target, Term)
        and refs[0].span == place_of(scope.source, node)
    ):
        return refs[0].target  # an alias alone becomes its item, so that plans do not depend on aliases
    return Term(scope.source, place_of(scope.source, node), tuple(sorted(refs, key=lambda r: r.span)))


def _ref(scope: Scope, column: exp.Column, aliases: Mapping[str, Term], since: int) -> Ref:
    span = place_of(scope.source, column)
    call = position_of_call(column.name)
    if call is not None:
        return Ref(span, call)
    part = _struct_before(scope, column, aliases, since)
    if part is not None:
        return part
    position = scope.find(column, since)
    if position is not None:
        return Ref(span, position)
    if not column.args.get("table") and column.name.lower() in aliases:
        return Ref(span, aliases[column.name.lower()])
    raise scope.unknown(column, tuple(aliases))


def _struct_before(scope: Scope, column: exp.Column, aliases: Mapping[str, Term], since: int) -> Ref | None:
    """Returns the column of `column.field` or `table.column.field`, whose fields DuckDB then resolves; None if the name
    is `column` or `table.column`. As in SQL, a table goes before a column of its name."""
    parts = column.parts
    first = exp.column(parts[0].copy())
    first.this._meta = parts[0]._meta
    tables = {i.alias.lower() for i in scope.inputs[since:] if i.alias is not None}
    if len(parts) == 1 or (parts[0].name.lower() in tables and len(parts) == 2):
        return None
    span = span_of(parts[0])
    if span is None:
        return None
    if parts[0].name.lower() in tables:
        owner = exp.Column(this=parts[1].copy(), table=parts[0].copy())
        position = scope.find(owner, since)
        after = span_of(parts[1])
        return None if position is None or after is None else Ref((span[0], after[1]), position)
    position = scope.find(first, since)
    if position is not None:
        return Ref(span, position) if scope.types[position].fields else None
    alias = aliases.get(parts[0].name.lower())
    return None if alias is None else Ref(span, alias)


def check_scalar(source: Source, node: exp.Expr, clause: str, aggregates: bool = False) -> None:
    """Raises for anything but a deterministic scalar expression; `aggregates` allows aggregates in it."""
    for part in node.walk():
        if isinstance(part, exp.Query | exp.Exists):
            raise source.error(
                place_of(source, part),
                f"a subquery cannot be used in {clause}",
                "use it in WHERE, or put it in FROM and join with it",
            )
        if isinstance(part, exp.Window):
            raise source.error(
                place_of(source, part),
                f"a function with OVER cannot be used in {clause}",
                "use it in SELECT or in QUALIFY; put it in a subquery in FROM to use it elsewhere",
            )
        if isinstance(part, exp.Filter) and not isinstance(part.this, AGGREGATES):
            raise source.error(
                place_of(source, part), "FILTER needs an aggregate before it", "write COUNT(*) FILTER (WHERE condition)"
            )
        if isinstance(part, exp.Star) and not isinstance(part.parent, exp.Count):
            raise source.error(place_of(source, part), "* cannot be part of an expression", "name the columns")
        if isinstance(part, exp.Placeholder | exp.Parameter):
            raise source.error(place_of(source, part), "a parameter needs a name", "write $name, and --set name=value")
        if isinstance(part, AGGREGATES) and not aggregates:
            hints = {"WHERE": "write the condition in HAVING", "SHED": "write an expression over the stream's columns"}
            hint = hints.get(clause, "compute it in a subquery in FROM")
            raise source.error(place_of(source, part), f"an aggregate cannot be used in {clause}", hint)
    inner = [place_of(source, column) for column in node.find_all(exp.Column) if column.name.startswith("\0")]
    _check_functions(source, place_of(source, node), inner)


def _check_functions(source: Source, span: Span, bound: Sequence[Span] = ()) -> None:
    """Raises for functions that an expression cannot call. `bound` are sub-queries and calls with OVER, which are
    checked where they are bound."""
    known = functions()
    tokens = [t for t in source.tokens_in(span) if not any(start <= t.start < end for start, end in bound)]
    if not tokens:
        return
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        name, place = token.text.lower(), (token.start, token.end + 1)
        if token.token_type in (TokenType.STRING, TokenType.NUMBER):
            continue
        if name in _SET_RETURNING and after is not None and after.token_type == TokenType.L_PAREN:
            hint = "write FROM stream [window], UNNEST(list) AS u(item)" if name == "unnest" else "leave it out"
            raise source.error(place, f"{name} returns several rows and cannot be part of an expression", hint)
        called = after is not None and after.token_type == TokenType.L_PAREN
        kinds = known.get(name, frozenset()) if called else frozenset()
        if "volatile" in kinds or (name in _CLOCKS and token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER)):
            hint = "use the stream's timestamp column" if name in _CLOCKS else "use a column of the stream"
            raise source.error(
                place, f"{name} returns a different value each time and cannot be used in a continuous query", hint
            )
        if "aggregate" in kinds and name not in AGGREGATE_NAMES and not kinds & {"scalar", "macro"}:
            best = near(name, sorted(AGGREGATE_NAMES))
            hint = f"did you mean {best}?" if best else "write COUNT, SUM, AVG, MIN or MAX"
            raise source.error(place, f"{name} is not an aggregate of CQL", hint)


def typed(term: Term, types: Types, place: Place = lambda position: position) -> Expr:
    """Returns the expression over columns of these types, cast to a column type."""
    sql = term.sql(place)
    if len(sql.pieces) == 1 and isinstance(term.refs[0].target if term.refs else None, int):
        column = int(sql.text[1:])
        return Expr(sql.text, types[column], term.text, column)
    kind, cast = _bind(term, sql, types)
    if kind is None:
        found = describe(sql.text, types).type
        hint = (
            "add it to a time, or write epoch_us(...) or CAST(... AS STRING)"
            if found == "INTERVAL"
            else "write CAST(... AS ...) to a column type, such as STRING"
        )
        raise term.source.error(term.span, f"the result has type {found}, which is not a column type", hint)
    text = held(sql.text, types)
    return Expr(f"CAST({text} AS {kind.duckdb})" if cast else text, kind, term.text)


def predicate(term: Term, types: Types, clause: str, place: Place = lambda position: position) -> Expr:
    """Returns a condition: a BOOLEAN, or a number cast to one, as DuckDB does."""
    expr = typed(term, types, place)
    if expr.type not in (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE) and not expr.type.is_decimal:
        raise term.source.error(
            term.span, f"{clause} needs a condition, got {expr.type}", "write a comparison, as in x > 3"
        )
    if expr.type is Type.BOOLEAN:
        return expr
    return Expr(f"CAST({expr.sql} AS BOOLEAN)", Type.BOOLEAN, expr.text)


def _bind(term: Term, sql: Sql, types: Types) -> tuple[Type | None, bool]:
    try:
        return column_type(sql.text, types)
    except DuckError as error:
        span = term.span
        if error.start is not None:
            span = sql.source_span(error.start, error.length) or span
        raise _readable(term.source, span, error) from error


def _readable(source: Source, span: Span, error: DuckError) -> CqlError:
    if error.hint is not None:
        return source.error(span, error.message, error.hint)
    first, _, rest = with_own_names(error.message).partition("\n")
    call = re.search(r"argument types '(.*?)'", first)
    if call:
        takes = [line.strip().replace(", /", "") for line in rest.splitlines() if "->" in line]
        some = "; ".join(dict.fromkeys(_ours(t) for t in takes[:3]))
        name = call[1].split("(", 1)[0]
        hint = (
            "convert with CAST(... AS ...)"
            if not name.isidentifier() or not some
            else f"there is {some}; convert with CAST(... AS ...)"
        )
        return source.error(span, f"{_ours(call[1])} does not exist: wrong types or number of arguments", hint)
    missing = re.search(r"Function with name (\S+) does not exist", first)
    if missing:
        best = near(missing[1], sorted({*(ALLOWED - OPERATORS), *source.functions}))
        return source.error(
            span,
            f"unknown function {missing[1]}",
            f"did you mean {best}?" if best else "see the language reference for functions",
        )
    compare = re.search(r"[Cc]ompare values of type (.+?) and (?:values of )?type (.+?) ", first)
    if compare:
        return source.error(
            span,
            f"cannot compare {_ours(compare[1])} with {_ours(compare[2])}",
            "convert one side with CAST(... AS ...)",
        )
    kind = re.search(r"Type with name (\S+) does not exist", first)
    if kind:
        return source.error(span, f"unknown type {kind[1]}", TYPES_HINT)
    column = re.search(r'Referenced column "(.+?)" not found', first)
    if column:
        return source.error(
            span, f"{column[1]} is a keyword here, not a column", f'write "{column[1]}" in double quotes'
        )
    constant = re.search(r"Could not convert string '(.*)' to (\w+)", first)
    if constant:
        wanted = _ours(constant[2])
        return source.error(span, f"'{constant[1]}' is not a {wanted}", f"write a {wanted}, or compare with a STRING")
    if "field format" in first:
        return source.error(span, first.split(", expected")[0], "write a time such as TIMESTAMP '2024-01-01 00:00:00'")
    return source.error(span, _ours(first), "see the language reference for expressions")


def _ours(text: str) -> str:
    """Replaces DuckDB's names of types by CQL's."""
    for theirs, ours in _WORDS.items():
        text = re.sub(rf"\b{theirs}\b", ours, text)
    return text
