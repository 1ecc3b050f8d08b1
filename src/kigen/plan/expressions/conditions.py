"""Cuts the SQL text of a condition into the parts that AND joins, and a comparison into its two sides.

Nothing is parsed into a tree and generated again. The text is cut between tokens, so each piece means what it meant in
the whole. Invariant: a cut is made only where no other operator of the same or a lower precedence is next to it; text
that is in doubt stays whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from kigen.language.dialect import Cql
from kigen.plan.expressions.columns import movable

_COMPARE = {
    TokenType.EQ: "=",
    TokenType.LT: "<",
    TokenType.LTE: "<=",
    TokenType.GT: ">",
    TokenType.GTE: ">=",
}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
# Next to one of these, a comparison is not the outermost operation, or it is unclear what is.
_WORDS = {
    "and", "or", "not", "xor", "between", "in", "like", "ilike", "glob", "similar", "is", "isnull", "notnull",
    "escape", "collate",
}  # fmt: skip
_SIGNS = {"<>", "!=", "==", "~", "!~", "@", "&", "|", "#", "?", "^", "->", "->>", "lambda", "any", "all", "some"}
_OTHERS = frozenset(_WORDS | _SIGNS)


@dataclass(frozen=True)
class Compared:
    """A comparison `left op right`, with op one of = < <= > >=."""

    left: str
    op: str
    right: str

    @property
    def flipped(self) -> Compared:
        return Compared(self.right, _FLIPPED[self.op], self.left)


@dataclass(frozen=True)
class _Outer:
    """A token outside all parentheses and outside CASE."""

    word: str
    token: Token


@lru_cache(maxsize=4096)
def tokens_of(sql: str) -> tuple[Token, ...] | None:
    """Returns the tokens of an expression; None if it cannot be cut."""
    if not movable(sql):
        return None
    try:
        return tuple(Cql().tokenize(sql))
    except TokenError:
        return None


def parts_of(sql: str) -> list[str]:
    """Returns the conditions that AND joins; one if there is no AND, or if it is unclear where they end."""
    sql = _unwrapped(sql)
    outer = _outer(sql)
    if outer is None or any(o.word == "or" for o in outer):
        return [sql]
    cuts: list[Token] = []
    open_betweens = 0
    for each in outer:
        if each.word == "between":
            open_betweens += 1
        elif each.word == "and" and open_betweens:
            open_betweens -= 1
        elif each.word == "and":
            cuts.append(each.token)
    if not cuts:
        return [sql]
    starts = [0, *(t.end + 1 for t in cuts)]
    ends = [*(t.start for t in cuts), len(sql)]
    return [part for start, end in zip(starts, ends, strict=True) for part in parts_of(sql[start:end].strip())]


def comparisons_of(sql: str) -> list[Compared]:
    """Returns the comparisons that must all be true for the condition to be true: two for BETWEEN, one for a plain
    comparison, none for anything else."""
    sql = _unwrapped(sql)
    outer = _outer(sql)
    if outer is None:
        return []
    words = [o.word for o in outer if o.word in _OTHERS]
    found = [o for o in outer if o.token.token_type in _COMPARE]
    if words == ["between", "and"] and not found:
        between, conjunction = (next(o.token for o in outer if o.word == word) for word in words)
        value, low, high = sql[: between.start], sql[between.end + 1 : conjunction.start], sql[conjunction.end + 1 :]
        if low.split()[0].lower() in ("symmetric", "asymmetric"):
            return []
        return [Compared(value.strip(), ">=", low.strip()), Compared(value.strip(), "<=", high.strip())]
    if words or len(found) != 1:
        return []
    (at,) = found
    left, right = sql[: at.token.start].strip(), sql[at.token.end + 1 :].strip()
    return [Compared(left, _COMPARE[at.token.token_type], right)] if left and right else []


def _unwrapped(sql: str) -> str:
    """Removes parentheses around the whole text."""
    while True:
        tokens = tokens_of(sql)
        if not tokens or tokens[0].token_type != TokenType.L_PAREN or closing_parenthesis(tokens, 0) != len(tokens) - 1:
            return sql
        sql = sql[tokens[0].end + 1 : tokens[-1].start].strip()


def closing_parenthesis(tokens: tuple[Token, ...], start: int) -> int | None:
    """Returns the index of the token that closes the parenthesis at `start`."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i].token_type in _OPEN) - (tokens[i].token_type in _CLOSE)
        if depth == 0:
            return i
    return None


def _outer(sql: str) -> list[_Outer] | None:
    tokens = tokens_of(sql)
    if tokens is None:
        return None
    found: list[_Outer] = []
    depth = 0
    for token in tokens:
        quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        word = "" if quoted else token.text.lower()
        opens = token.token_type in _OPEN or word == "case"
        closes = token.token_type in _CLOSE or (word == "end" and depth > 0)
        if not (opens or closes) and depth == 0:
            found.append(_Outer(word, token))
        depth += opens - closes
    return found if depth == 0 else None
