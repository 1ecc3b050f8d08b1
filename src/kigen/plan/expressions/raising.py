"""Decides whether an expression might raise on some row. Only an expression that cannot raise may be evaluated on rows
that the user's own order would have kept from it.

These might raise: a CAST that can fail, `::`, division by anything but a non-zero literal, shifts, and every function
that is not known to be safe. Overflow of `+`, `-` and `*` does not count, because then nearly every expression might
raise. Cost: tokenizing the text; a CAST also asks DuckDB for the type of its operand, about 0.3 ms, cached.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot.tokenizer_core import Token, TokenType

from kigen.plan.binder.expressions.duckdb_types import DuckError, Types, describe, functions
from kigen.plan.expressions.conditions import closing_parenthesis, tokens_of
from kigen.plan.logical import calls_python
from kigen.plan.types import Type

_SAFE = frozenset({
    "abs", "lower", "upper", "length", "strlen", "coalesce", "nullif", "ifnull", "greatest", "least", "trim", "ltrim",
    "rtrim", "round", "floor", "ceil", "ceiling", "sign", "concat", "starts_with", "ends_with", "contains", "prefix",
    "suffix", "reverse", "replace", "substr", "substring", "strpos", "instr", "epoch_us", "year", "month", "day",
    "hour", "minute", "second", "try_cast", "if",
})  # fmt: skip
_DIVISIONS = frozenset({TokenType.DIV, TokenType.MOD, TokenType.SLASH})
_NUMBERS = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT"})
_DOUBLES = _NUMBERS | {"HUGEINT", "UHUGEINT", "UBIGINT", "FLOAT", "DOUBLE"}
_TEXT = frozenset({"varchar", "string", "text"})


@lru_cache(maxsize=4096)
def may_raise(sql: str, types: Types) -> bool:
    """Returns whether the expression over columns c0, c1, ... of these types might raise on some row."""
    tokens = tokens_of(sql)
    if tokens is None:
        return True
    return any(_risky(sql, tokens, i, types) for i in range(len(tokens)))


def _risky(sql: str, tokens: tuple[Token, ...], i: int, types: Types) -> bool:
    token = tokens[i]
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    if token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER):
        return False
    if token.token_type == TokenType.DCOLON:
        return True
    if token.token_type in _DIVISIONS:
        return not _is_divisor(tokens[i + 1 : i + 3])
    if token.text in ("<", ">") and after is not None and after.text == token.text and after.start == token.end + 1:
        return True  # a shift
    called = after is not None and after.token_type == TokenType.L_PAREN
    name = token.text.lower()
    if name == "cast" and called:
        return _cast_may_fail(sql, tokens, i + 1, types)
    return called and (calls_python(name) or (name in functions() and name not in _SAFE))


def _is_divisor(behind: tuple[Token, ...]) -> bool:
    """Returns whether a non-zero literal follows, with nothing that binds tighter than the division."""
    if not behind or behind[0].token_type != TokenType.NUMBER:
        return False
    if len(behind) > 1 and behind[1].text in ("**", "^", "::", "!", "[", "."):
        return False
    try:
        return float(behind[0].text.replace("_", "")) != 0
    except ValueError:
        return False


def _cast_may_fail(sql: str, tokens: tuple[Token, ...], start: int, types: Types) -> bool:
    """Returns whether CAST(x AS type) can fail. It cannot fail to text, nor from a number to a wider one."""
    end = closing_parenthesis(tokens, start)
    if end is None or end - start < 4 or tokens[end - 2].text.lower() != "as":
        return True
    wanted = tokens[end - 1].text.lower()
    if wanted in _TEXT:
        return False
    column = tokens[start + 1].text
    if wanted == "uuid" and end - start == 4 and re.fullmatch(r"c\d+", column):  # of text that was a UUID before
        return types[int(column[1:])] is not Type.UUID
    allowed = {"double": _DOUBLES, "bigint": _NUMBERS, "boolean": frozenset({"BOOLEAN", "BIGINT"})}.get(wanted)
    if allowed is None:
        return True
    try:
        found = describe(sql[tokens[start].end + 1 : tokens[end - 2].start].strip(), types).type
    except DuckError:
        return True
    return not (found in allowed or (wanted == "double" and found.startswith("DECIMAL")))
